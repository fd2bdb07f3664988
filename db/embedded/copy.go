package embedded

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
)

// copied gives a copy of an npm package's native folder, with the links that the package leaves to its install script. The copy is named by the
// hash of its content, made in one move, and never changed: a newer package gets a folder of its own.
func (p *place) copied(native string, durable bool) (string, error) {
	files, hash, err := contents(native)
	if err != nil {
		return "", err
	}
	links, err := readLinks(native, files)
	if err != nil {
		return "", err
	}
	home := p.binHome()
	if home == rootHome {
		if err := os.MkdirAll(home, 0o711); err != nil { //nolint:gosec // PostgreSQL's user passes through
			return "", err
		}
		if !onlyRoots(home) {
			return "", fmt.Errorf("%s can be written by others than root", home)
		}
	}
	final := filepath.Join(home, binPrefix+hash)
	if isProgram(filepath.Join(final, "bin", "postgres")) {
		return final, nil
	}
	// Several processes may come here at once for one home: they take turns, and the second finds the work done.
	turn, err := os.Open(home)
	if err != nil {
		return "", err
	}
	defer turn.Close()
	if err := syscall.Flock(int(turn.Fd()), syscall.LOCK_EX); err != nil {
		return "", err
	}
	if isProgram(filepath.Join(final, "bin", "postgres")) {
		return final, nil
	}
	fresh := final + ".new"
	if err := os.RemoveAll(fresh); err != nil {
		return "", err
	}
	for _, name := range files {
		if err := copyFile(filepath.Join(native, name), filepath.Join(fresh, name)); err != nil {
			return "", err
		}
	}
	for link, target := range links {
		if err := os.Symlink(target, filepath.Join(fresh, link)); err != nil {
			return "", err
		}
	}
	if durable {
		syscall.Sync() // once per version: a copy that a power cut empties would look whole
	}
	return final, os.Rename(fresh, final)
}

// contents lists the files that are needed to run, and a hash of their names and bytes.
func contents(native string) (files []string, hash string, err error) {
	root, err := os.OpenRoot(native)
	if err != nil {
		return nil, "", err
	}
	defer func() { _ = root.Close() }()
	h := sha256.New()
	for _, top := range []string{"bin", "lib", "share"} {
		err := fs.WalkDir(root.FS(), top, func(name string, e fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			if e.IsDir() && e.Name() == "pkgconfig" {
				return fs.SkipDir
			}
			if !e.Type().IsRegular() || path.Ext(name) == ".a" { // links are made from the list, archives are for building
				return nil
			}
			f, err := root.Open(name)
			if err != nil {
				return err
			}
			defer f.Close()
			one := sha256.New()
			if _, err := io.Copy(one, f); err != nil {
				return err
			}
			files = append(files, name)
			fmt.Fprintf(h, "%s %x\n", name, one.Sum(nil))
			return nil
		})
		if err != nil {
			return nil, "", err
		}
	}
	list, err := root.ReadFile("pg-symlinks.json")
	if err != nil {
		return nil, "", err
	}
	h.Write(list)
	return files, hex.EncodeToString(h.Sum(nil))[:24], nil
}

// readLinks reads the package's list of links, by the link's name, each relative to the folder it lies in. A link or target outside lib, or a
// target that is not in the package, makes the list unusable.
func readLinks(native string, files []string) (map[string]string, error) {
	text, err := os.ReadFile(filepath.Join(native, "pg-symlinks.json"))
	if err != nil {
		return nil, err
	}
	var list []struct{ Source, Target string }
	if err := json.Unmarshal(text, &list); err != nil {
		return nil, fmt.Errorf("pg-symlinks.json: %w", err)
	}
	links := map[string]string{}
	for _, l := range list {
		real, okReal := strings.CutPrefix(path.Clean(l.Source), "native/")
		link, okLink := strings.CutPrefix(path.Clean(l.Target), "native/")
		if !okReal || !okLink || !filepath.IsLocal(link) || !strings.HasPrefix(link, "lib/") {
			return nil, fmt.Errorf("pg-symlinks.json: %q -> %q leads out of the package", l.Target, l.Source)
		}
		if !slices.Contains(files, real) {
			return nil, fmt.Errorf("pg-symlinks.json: %q is not in the package", l.Source)
		}
		rel, err := filepath.Rel(path.Dir(link), real)
		if err != nil {
			return nil, err
		}
		links[link] = rel
	}
	return links, nil
}

// copyFile copies a file that PostgreSQL's user may read, and run if it could be run.
func copyFile(from, to string) error {
	if err := mkdirOpen(filepath.Dir(to)); err != nil {
		return err
	}
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	info, err := in.Stat()
	if err != nil {
		return err
	}
	mode := os.FileMode(0o644)
	if info.Mode()&0o111 != 0 {
		mode = 0o755
	}
	// A process that another goroutine starts meanwhile would hold the copy open for writing for a moment, and a program that is open so can't be run.
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	out, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	return errors.Join(err, out.Chmod(mode), out.Close()) // Chmod: a strict umask would lock PostgreSQL's user out
}

// mkdirOpen makes folders that anyone may read, whatever the umask says. What lies in them is public.
func mkdirOpen(dir string) error {
	if info, err := os.Stat(dir); err == nil && info.IsDir() {
		return nil
	}
	if err := mkdirOpen(filepath.Dir(dir)); err != nil {
		return err
	}
	if err := os.Mkdir(dir, 0o755); err != nil { //nolint:gosec // see above
		return err
	}
	return os.Chmod(dir, 0o755) //nolint:gosec // see above
}
