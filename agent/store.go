package agent

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/better-compute/better-compute/fault"
)

// The records of a store, each a file of this name in the state directory.
const (
	// identityRecord holds the identity key.
	identityRecord = "identity"
	// credentialRecord holds the certificate in use and its key.
	credentialRecord = "credential"
	// nextRecord holds a renewed certificate that was not used yet.
	nextRecord = "next"
	// pendingRecord holds the key and request of a join or renewal whose answer did not come yet.
	pendingRecord = "pending"
)

// records lists every record, the ones that make a machine joined first: a move that is cut off leaves the identity for last.
var records = []string{credentialRecord, nextRecord, pendingRecord, identityRecord}

// expendable says of a record that its damage costs a further request at most: it counts as absent then. Were it to stop the machine, a certificate that
// is whole would run out unrenewed. What can't be read at all is another matter: it may be whole.
func expendable(record string) bool { return record == pendingRecord || record == nextRecord }

// lockFile guards joins and renewals; it stays for ever.
const lockFile = "lock"

// previous is the suffix of the copy of a record from before its last write.
const previous = ".previous"

// errDamaged says that a file is there but is not a whole record.
var errDamaged = errors.New("damaged")

// store keeps records so that a write that is cut off anywhere leaves the record as it was before or after, and damage is noticed.
//
// A record is one file: a line with the format, the record's name, a number that grows with each write and the SHA-256 of the rest, then JSON.
type store struct {
	dir  string
	disk disk
	log  *slog.Logger
}

func (s *store) path(name string) string { return filepath.Join(s.dir, name) }

// read loads a record; found is false only when it surely is not there, or is expendable and damaged. What was cut off or damaged is taken from the
// newest whole copy beside it. What a reset has brought that is through counts before what is not moved aside yet. An error means that nobody can say
// what the record was, and that nothing may be put in its place.
func (s *store) read(record string, into any) (found bool, err error) {
	// In this order: records move from there to here, so that one which is moved meanwhile is seen.
	if found, err = s.within(takenDir).readHere(record, into); found || err != nil {
		return found, err
	}
	return s.readHere(record, into)
}

func (s *store) readHere(record string, into any) (found bool, err error) {
	payload, _, found, err := s.newest(record)
	if errors.Is(err, errDamaged) && expendable(record) {
		s.log.Warn("a damaged record is passed over; it is made anew when it is needed", "record", record)
		return false, nil
	}
	if err != nil || !found {
		return false, err
	}
	if err := json.Unmarshal(payload, into); err != nil {
		return false, fmt.Errorf("read the %s in %s: %w", record, s.dir, err)
	}
	return true, nil
}

func (s *store) newest(record string) (payload []byte, revision uint64, found bool, err error) {
	path := s.path(record)
	content, err := s.disk.read(path)
	absent := errors.Is(err, fs.ErrNotExist)
	if err != nil && !absent {
		return nil, 0, false, fmt.Errorf("read the %s in %s: %w", record, s.dir, err)
	}
	if !absent {
		if payload, revision, err = decode(record, content); err == nil {
			return payload, revision, true, nil
		}
	}
	// The file is absent or damaged. A whole temporary is a first write that was cut off just before its rename. The previous copy counts only
	// beside a damaged file: our writes never take the file away, so an absent one was removed on purpose.
	names, err := s.disk.list(s.dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, 0, false, nil
	}
	if err != nil {
		return nil, 0, false, fmt.Errorf("list %s: %w", s.dir, err)
	}
	source := ""
	for _, name := range names {
		if !isTemporary(record, name) && (absent || name != record+previous) {
			continue
		}
		content, err := s.disk.read(s.path(name))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, 0, false, fmt.Errorf("read %s in %s: %w", name, s.dir, err)
		}
		if p, r, err := decode(record, content); err == nil && (source == "" || r > revision) {
			payload, revision, source = p, r, name
		}
	}
	if source == "" {
		if absent {
			return nil, 0, false, nil
		}
		way := "join anew with --reset --yes"
		if record == credentialRecord { // its loss is not the identity's
			way = "remove it and run bcd join with a fresh join token, which keeps the node's id"
		}
		return nil, 0, false, fault.New(fault.InvalidState, fault.Details{"path": path},
			"%s is %w and no whole copy is beside it; restore it from a backup, or %s", path, errDamaged, way)
	}
	s.log.Warn("the record is taken from a copy", "record", record, "copy", source)
	return payload, revision, true, nil
}

// write puts a record in place. The caller holds the lock.
func (s *store) write(record string, v any) error {
	payload, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("write the %s: %w", record, err)
	}
	_, revision, found, err := s.newest(record)
	if err != nil && (!errors.Is(err, errDamaged) || !expendable(record)) {
		return err
	}
	if err := s.replace(record, encode(record, revision+1, payload), found); err != nil {
		return fmt.Errorf("write the %s in %s: %w", record, s.dir, err)
	}
	s.tidy(record)
	return nil
}

func (s *store) replace(record string, content []byte, keep bool) error {
	path := s.path(record)
	temporary := s.path(temporaryName(record))
	if err := s.disk.write(temporary, content); err != nil {
		// What was written of it is of no use, and a full disk needs the room.
		_ = s.disk.remove(temporary)
		return err
	}
	if keep {
		// A second name for the old content, put over the copy from before in one step.
		copied := s.path(temporaryName(record))
		switch err := s.disk.link(path, copied); {
		case errors.Is(err, fs.ErrNotExist): // the record was taken from a copy; there is no file to keep
		case err != nil:
			_ = s.disk.remove(temporary)
			return err
		default:
			if err := s.disk.rename(copied, path+previous); err != nil {
				_ = s.disk.remove(temporary)
				return err
			}
		}
	}
	if err := s.disk.rename(temporary, path); err != nil {
		_ = s.disk.remove(temporary)
		return err
	}
	return s.disk.sync(s.dir)
}

// tidy removes the temporaries of a record whose file is whole. It does not matter when it fails: they are never read beside a whole file.
func (s *store) tidy(record string) {
	content, err := s.disk.read(s.path(record))
	if err != nil {
		return
	}
	if _, _, err := decode(record, content); err != nil {
		return
	}
	names, err := s.disk.list(s.dir)
	if err != nil {
		return
	}
	for _, name := range names {
		if isTemporary(record, name) {
			_ = s.disk.remove(s.path(name))
		}
	}
}

// promote makes the renewed credential the one in use; the one before becomes the previous copy. The caller holds the lock.
func (s *store) promote() error {
	var next credentialJSON
	found, err := s.read(nextRecord, &next)
	if err != nil || !found {
		return err
	}
	// The name of a record is part of its checksum, so the file itself can't be renamed.
	if err := s.write(credentialRecord, next); err != nil {
		return err
	}
	return s.drop(nextRecord)
}

// drop takes away a record that has served. The caller holds the lock.
func (s *store) drop(record string) error {
	names, err := s.disk.list(s.dir)
	if err != nil {
		return fmt.Errorf("list %s: %w", s.dir, err)
	}
	// The file last: were it first, a temporary left of an earlier death would be taken for it.
	for _, name := range append(family(record, names), record) {
		if err := s.disk.remove(s.path(name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("remove %s in %s: %w", name, s.dir, err)
		}
	}
	return s.disk.sync(s.dir)
}

// family gives those names that belong to a record but are not its file: its temporaries and its previous copy.
func family(record string, names []string) []string {
	var found []string
	for _, name := range names {
		if isTemporary(record, name) || name == record+previous {
			found = append(found, name)
		}
	}
	return found
}

// identity reads the identity; found is false only when there surely is none.
func (s *store) identity() (Identity, bool, error) {
	var record identityJSON
	found, err := s.read(identityRecord, &record)
	if err != nil || !found {
		return Identity{}, false, err
	}
	identity, err := record.identity()
	if err != nil {
		return Identity{}, false, fmt.Errorf("read the identity in %s: %w", s.dir, err)
	}
	return identity, true, nil
}

// credential reads a credential; found is false only when there surely is none.
func (s *store) credential(record string) (*Credential, bool, error) {
	var stored credentialJSON
	found, err := s.read(record, &stored)
	if err != nil || !found {
		return nil, false, err
	}
	credential, err := stored.credential()
	if err != nil {
		return nil, false, fmt.Errorf("read the %s in %s: %w", record, s.dir, err)
	}
	return credential, true, nil
}

// keep writes a record unless its file is whole already.
func (s *store) keep(record string, v any, found bool) error {
	if found {
		content, err := s.disk.read(s.path(record))
		if err == nil {
			if _, _, err = decode(record, content); err == nil {
				s.tidy(record)
				return nil
			}
		}
	}
	return s.write(record, v)
}

// A record's first line: the format, its name, its number, the checksum.
const format = "bcd1"

func encode(record string, revision uint64, payload []byte) []byte {
	head := format + " " + record + " " + strconv.FormatUint(revision, 10)
	return append([]byte(head+" "+checksum(head, payload)+"\n"), payload...)
}

func decode(record string, content []byte) (payload []byte, revision uint64, err error) {
	line, payload, ok := bytes.Cut(content, []byte("\n"))
	if !ok {
		return nil, 0, errDamaged
	}
	fields := strings.Split(string(line), " ")
	if len(fields) != 4 || fields[0] != format || fields[1] != record {
		return nil, 0, errDamaged
	}
	if checksum(strings.Join(fields[:3], " "), payload) != fields[3] {
		return nil, 0, errDamaged
	}
	if revision, err = strconv.ParseUint(fields[2], 10, 64); err != nil {
		return nil, 0, errDamaged
	}
	return payload, revision, nil
}

func checksum(head string, payload []byte) string {
	h := sha256.New()
	h.Write([]byte(head + "\n"))
	h.Write(payload)
	return hex.EncodeToString(h.Sum(nil))
}

func temporaryName(record string) string { return "." + record + "." + random(8) + ".tmp" }

func isTemporary(record, name string) bool {
	return strings.HasPrefix(name, "."+record+".") && strings.HasSuffix(name, ".tmp")
}

// random gives n random bytes in hex, for names that nobody else uses.
func random(n int) string {
	b := make([]byte, n)
	// crypto/rand never fails: it ends the process instead.
	_, _ = rand.Read(b)
	return hex.EncodeToString(b)
}

// lock waits until nobody else joins or renews with this state directory, in this process or another. A process that dies lets go. Who holds the lock
// finds no half of a reset.
func (s *store) lock(ctx context.Context) (unlock func(), err error) {
	const look = 20 * time.Millisecond
	tick := time.NewTicker(look)
	defer tick.Stop()
	for {
		unlock, err := s.tryLock()
		if err == nil || !errors.Is(err, errLocked) {
			return unlock, err
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("wait for another bcd to finish its join: %w", context.Cause(ctx))
		case <-tick.C:
		}
	}
}

// tryLock is lock for who can't wait: it gives errLocked.
func (s *store) tryLock() (unlock func(), err error) {
	unlock, err = tryLock(s.path(lockFile))
	if err != nil {
		return nil, err
	}
	if _, err := s.settle(); err != nil {
		unlock()
		return nil, err
	}
	return unlock, nil
}
