// Package console is the web console: its source, and the handler that serves its built files from the binary.
//
// The page holds no secret and no data of its own: everything it shows comes from the API by the session's cookie, so its files are
// served to anybody.
package console

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"mime"
	"net/http"
	"path"
	"strconv"
	"strings"
	"time"
)

// The folder holds .keep alone until the console is built, so that the module builds without npm.
//
//go:embed all:dist
var built embed.FS

// policy lets the page load from its own server alone and be framed by nobody. Inline styles are what the dialogs' scroll lock needs;
// inline scripts stay refused.
const policy = "default-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'; object-src 'none'; " +
	"style-src 'self' 'unsafe-inline'"

// playgroundPolicy allows besides what the playground's editor needs: workers, and fonts and images that lie in its styles.
const playgroundPolicy = policy + "; font-src 'self' data:; img-src 'self' data:; worker-src 'self' blob:"

// The pages by their files. The playground, GraphiQL, is a page of its own, so that the console carries none of it.
const (
	indexPage      = "index.html"
	playgroundPage = "playground.html"
	playgroundPath = "playground"
)

// Handler serves the console. A path that is no file gives the page itself to a browser that asks for a page, since the page's own
// addresses are no files, and 404 to everybody else. Without a built console each page says how to build it.
func Handler() http.Handler {
	dist, err := fs.Sub(built, "dist")
	if err != nil {
		// Only an invalid folder name gives one, and the name is a constant.
		panic(err)
	}
	return handler(dist)
}

type asset struct {
	body, gzip, brotli []byte
	contentType        string
	etag               string
	immutable          bool
}

func handler(dist fs.FS) http.Handler {
	assets := load(dist)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Security-Policy", policy)
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("Cross-Origin-Opener-Policy", "same-origin")
		if r.Method != http.MethodGet && r.Method != http.MethodHead {
			h.Set("Allow", "GET, HEAD")
			http.Error(w, "the console answers GET and HEAD", http.StatusMethodNotAllowed)
			return
		}
		name := strings.TrimPrefix(path.Clean("/"+r.URL.Path), "/")
		if a, ok := assets[name]; ok && name != indexPage && name != playgroundPage {
			a.serve(w, r)
			return
		}
		// A missing file of an older build must fail as a file: as a page it would be parsed as a script.
		if strings.HasPrefix(name, "assets/") || !wantsPage(r) {
			h.Set("Vary", "Accept")
			http.Error(w, "not found", http.StatusNotFound)
			return
		}
		file := indexPage
		if name == playgroundPath || name == playgroundPage {
			file = playgroundPage
			h.Set("Content-Security-Policy", playgroundPolicy)
		}
		page, ok := assets[file]
		if !ok {
			notBuilt(w)
			return
		}
		page.serve(w, r)
	})
}

func wantsPage(r *http.Request) bool {
	return strings.Contains(strings.Join(r.Header.Values("Accept"), ","), "text/html")
}

// load reads every file once; the handler then answers from memory. A compressed twin is no file of its own.
func load(dist fs.FS) map[string]*asset {
	assets := map[string]*asset{}
	err := fs.WalkDir(dist, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || strings.HasPrefix(entry.Name(), ".") {
			return err
		}
		if ext := path.Ext(name); ext == ".gz" || ext == ".br" {
			return nil
		}
		a := &asset{contentType: contentType(name), immutable: strings.HasPrefix(name, "assets/")}
		if a.body, err = fs.ReadFile(dist, name); err != nil {
			return fmt.Errorf("console: read %s: %w", name, err)
		}
		sum := sha256.Sum256(a.body)
		a.etag = hex.EncodeToString(sum[:12])
		for _, twin := range []struct {
			suffix string
			body   *[]byte
		}{{".gz", &a.gzip}, {".br", &a.brotli}} {
			if *twin.body, err = fs.ReadFile(dist, name+twin.suffix); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return fmt.Errorf("console: read %s%s: %w", name, twin.suffix, err)
			}
		}
		assets[name] = a
		return nil
	})
	if err != nil {
		// The files are part of the binary: reading them fails only if the program itself is broken.
		panic(err)
	}
	return assets
}

// contentType names the types that the build makes itself, since the system's table differs from machine to machine.
func contentType(name string) string {
	switch path.Ext(name) {
	case ".html":
		return "text/html; charset=utf-8"
	case ".js":
		return "text/javascript; charset=utf-8"
	case ".css":
		return "text/css; charset=utf-8"
	case ".svg":
		return "image/svg+xml"
	case ".ttf":
		return "font/ttf"
	}
	if t := mime.TypeByExtension(path.Ext(name)); t != "" {
		return t
	}
	return "application/octet-stream"
}

func (a *asset) serve(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Content-Type", a.contentType)
	h.Add("Vary", "Accept-Encoding")
	if a.immutable {
		h.Set("Cache-Control", "public, max-age=31536000, immutable")
	} else {
		h.Set("Cache-Control", "no-cache")
		h.Add("Vary", "Accept")
	}
	body, etag := a.body, a.etag
	switch accepted := r.Header.Get("Accept-Encoding"); {
	case a.brotli != nil && accepts(accepted, "br"):
		h.Set("Content-Encoding", "br")
		body, etag = a.brotli, etag+"-br"
	case a.gzip != nil && accepts(accepted, "gzip"):
		h.Set("Content-Encoding", "gzip")
		body, etag = a.gzip, etag+"-gz"
	}
	h.Set("ETag", strconv.Quote(etag))
	// A part of a compressed file is of no use to anybody, and the files are small.
	r.Header.Del("Range")
	http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(body))
}

// accepts reads an Accept-Encoding header: the coding is named and not weighted with 0.
func accepts(header, coding string) bool {
	for part := range strings.SplitSeq(header, ",") {
		name, parameters, _ := strings.Cut(part, ";")
		if !strings.EqualFold(strings.TrimSpace(name), coding) {
			continue
		}
		weight, ok := strings.CutPrefix(strings.ReplaceAll(parameters, " ", ""), "q=")
		if !ok {
			return true
		}
		q, err := strconv.ParseFloat(weight, 64)
		return err == nil && q > 0
	}
	return false
}

func notBuilt(w http.ResponseWriter) {
	h := w.Header()
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Cache-Control", "no-store")
	w.WriteHeader(http.StatusServiceUnavailable)
	// The connection's end is the only one who could hear of a failed write.
	_, _ = w.Write([]byte(`<!doctype html><html lang="en"><meta charset="utf-8"><title>better-compute</title>
<h1>This binary was built without the console</h1>
<p>Run <code>just console</code> and build the binary again, or <code>just build</code>, which does both.</p>
<p>The API answers at <code>/graphql</code>, and the command line does all that the console does.</p></html>
`))
}
