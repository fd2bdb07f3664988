package agent

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/better-compute/better-compute/fault"
	"github.com/better-compute/better-compute/gateway/wire"
)

// A reset makes a new identity beside the machine's and joins with it. Only when the new certificate is on the disk the new identity takes over, by one
// rename; whatever happens before that, the machine is what it was, and whatever happens after it, it is the new one.
const (
	// resetDir holds the identity of a reset that is not through, and the request that it joins with.
	resetDir = "reset"
	// takenDir is what resetDir is renamed to when it takes over: its records are the machine's until they are in their places.
	takenDir = "reset.through"
	// asidePrefix begins the names of the directories that hold identities from before.
	asidePrefix = "old-"
)

// within gives the records in a directory of the store.
func (s *store) within(dir string) *store { return &store{dir: s.path(dir), disk: s.disk, log: s.log} }

// joinAnew joins by a new identity, which takes the place of the one that is there once it is a node. The caller holds the lock.
func (a *Agent) joinAnew(ctx context.Context, token wire.Token) (Joined, error) {
	credential, err := a.joinStaged(ctx, token)
	if err != nil {
		return Joined{}, err
	}
	aside, err := a.store.takeOver()
	if errors.Is(err, errNotTaken) {
		return Joined{}, fmt.Errorf("this machine is what it was; repeat the join with the same token: %w", err)
	}
	if err != nil {
		a.log.Warn("the machine is the new node; the next bcd join or run puts its files in their places", "error", err)
	}
	return Joined{Credential: credential, MovedAside: aside}, nil
}

// joinStaged joins by the identity that is staged. What the control plane may know of is kept when that fails, so that it does not become a node that
// nobody is: the next reset goes on with it. One that the control plane knows and won't have is of no use, and another is tried.
func (a *Agent) joinStaged(ctx context.Context, token wire.Token) (*Credential, error) {
	for {
		begun, err := a.store.stage()
		if err != nil {
			return nil, err
		}
		staged := a.store.within(resetDir)
		credential, err := staged.joinedBy(token)
		if err != nil || credential != nil {
			return credential, err
		}
		credential, open, err := a.joinAs(ctx, staged, token)
		if err == nil {
			return credential, nil
		}
		spoilt := unwanted(err)
		if begun && !spoilt || open {
			return nil, err
		}
		if undone := a.store.unstage(); undone != nil {
			a.log.Warn("what a reset began stays behind; it does no harm", "dir", staged.dir, "error", undone)
			return nil, err
		}
		if !begun {
			return nil, err
		}
	}
}

// unwanted says that a join was refused for the identity itself, and not for its token or its connection.
func unwanted(err error) bool {
	reason := fault.From(err).Details["reason"]
	return reason != nil && reason != "proof"
}

// joinedBy gives the credential that a reset which was cut off got by this token, or nil.
func (s *store) joinedBy(token wire.Token) (*Credential, error) {
	var pending pendingJSON
	found, err := s.read(pendingRecord, &pending)
	if err != nil || !found || pending.TokenID != token.ID() {
		return nil, err
	}
	credential, found, err := s.credential(credentialRecord)
	if err != nil || !found {
		return nil, err
	}
	if key, err := parseKey(pending.PrivateKey); err != nil || !key.Equal(credential.key) {
		return nil, err
	}
	// It may have been found in a temporary, and only files take over. The identity is one since before the request.
	record, err := credential.record()
	if err != nil {
		return nil, err
	}
	return credential, s.keep(credentialRecord, record, true)
}

// stage makes the place for a new identity. begun says that one is there from a reset that was cut off.
func (s *store) stage() (begun bool, err error) {
	staged := s.within(resetDir)
	err = s.disk.mkdir(staged.dir)
	if err == nil {
		return false, nil
	}
	if !errors.Is(err, fs.ErrExist) {
		return false, fmt.Errorf("make %s: %w", staged.dir, err)
	}
	_, begun, err = staged.identity()
	if err == nil {
		_, _, err = staged.credential(credentialRecord)
	}
	if !errors.Is(err, errDamaged) {
		return begun, err
	}
	// Nobody is it yet, so it can be made anew.
	if err := s.unstage(); err != nil {
		return false, err
	}
	return s.stage()
}

// unstage removes what a reset began.
func (s *store) unstage() error {
	if err := s.clear(s.path(resetDir)); err != nil {
		return fmt.Errorf("remove %s: %w", s.path(resetDir), err)
	}
	return s.disk.sync(s.dir)
}

// clear removes a directory with its files and those of the directories in it.
func (s *store) clear(dir string) error {
	names, err := s.disk.list(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, name := range names {
		if err := s.disk.remove(filepath.Join(dir, name)); err != nil {
			return err
		}
	}
	return s.disk.remove(dir)
}

// errNotTaken says that a reset ended before the new identity took over.
var errNotTaken = errors.New("the new identity has not taken over")

// takeOver makes the staged identity the machine's, and gives the directory where the one from before is, "" for none. Nothing of the old one is read
// and nothing is deleted, so a store that is damaged is served too. With errNotTaken the machine is what it was; after any other error it is the new one.
func (s *store) takeOver() (aside string, err error) {
	staged := s.within(resetDir)
	err = s.disk.sync(staged.dir)
	if err == nil {
		err = s.disk.rename(staged.dir, s.path(takenDir))
	}
	if err != nil {
		return "", fmt.Errorf("%w: %w", errNotTaken, err)
	}
	if err := s.disk.sync(s.dir); err != nil {
		return "", err
	}
	return s.settle()
}

// settle puts what a reset that is through has brought in its place, and what was there before beside it, and gives the directory with that; "" when
// there is nothing to do. It goes on where it was cut off. The caller holds the lock.
func (s *store) settle() (aside string, err error) {
	taken := s.within(takenDir)
	brought, err := s.disk.list(taken.dir)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	if err == nil {
		aside, err = s.settleAll(taken, brought)
	}
	if err != nil {
		return "", fmt.Errorf("put the new identity from %s in its place: %w", taken.dir, err)
	}
	return aside, nil
}

func (s *store) settleAll(taken *store, brought []string) (aside string, err error) {
	for _, name := range brought {
		if strings.HasPrefix(name, asidePrefix) {
			aside = name
		}
	}
	// The first of the two is moved when all that was there before is aside, for sure.
	if slices.Contains(brought, identityRecord) && slices.Contains(brought, credentialRecord) {
		if aside, err = s.putAside(taken, aside); err != nil {
			return "", err
		}
	}
	for _, record := range []string{identityRecord, credentialRecord} {
		err := s.disk.rename(taken.path(record), s.path(record))
		if err != nil && !errors.Is(err, fs.ErrNotExist) { // absent: in its place already
			return "", err
		}
	}
	if err := s.disk.sync(s.dir); err != nil {
		return "", err
	}
	if aside != "" {
		if err := s.disk.rename(taken.path(aside), s.path(aside)); err != nil {
			return "", err
		}
		aside = s.path(aside)
	}
	if err := s.clear(taken.dir); err != nil {
		return "", err
	}
	return aside, s.disk.sync(s.dir)
}

// putAside moves the files of every record into a directory within taken, the one that is there from a try that was cut off or a new one, and gives its
// name; "" when there is nothing to move.
func (s *store) putAside(taken *store, aside string) (string, error) {
	names, err := s.disk.list(s.dir)
	if err != nil {
		return "", err
	}
	moving := ofRecords(names)
	if len(moving) == 0 {
		return aside, nil
	}
	if aside == "" {
		aside = asidePrefix + time.Now().UTC().Format("20060102T150405Z") + "-" + random(4)
		if err := s.disk.mkdir(taken.path(aside)); err != nil {
			return "", err
		}
	}
	for _, name := range moving {
		if err := s.disk.rename(s.path(name), filepath.Join(taken.path(aside), name)); err != nil {
			return "", err
		}
	}
	for _, dir := range []string{taken.path(aside), taken.dir, s.dir} {
		if err := s.disk.sync(dir); err != nil {
			return "", err
		}
	}
	return aside, nil
}

// Reset is a reset that was cut off.
type Reset struct {
	// Through tells that the machine is the new one already, and only its files are not in their places. Else it is what it was.
	Through bool `json:"through"`
	// UnderWay tells that a bcd works on it right now.
	UnderWay bool `json:"underWay"`
	// Dir holds what the reset made.
	Dir string `json:"dir"`
}

// cutOff looks for a reset that was cut off, or is under way.
func (s *store) cutOff() (*Reset, error) {
	for _, dir := range []string{takenDir, resetDir} {
		_, err := s.disk.list(s.path(dir))
		if err == nil {
			return &Reset{Through: dir == takenDir, Dir: s.path(dir)}, nil
		}
		if !errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("list %s: %w", s.path(dir), err)
		}
	}
	return nil, nil
}

// blank says that there is neither an identity nor anything else of a join, so that a reset has nothing to keep.
func (s *store) blank() (bool, error) {
	names, err := s.disk.list(s.dir)
	if err != nil {
		return false, fmt.Errorf("list %s: %w", s.dir, err)
	}
	return len(ofRecords(names)) == 0 && !slices.Contains(names, resetDir), nil
}

// ofRecords gives those names that belong to records: their copies, temporaries and files.
func ofRecords(names []string) []string {
	var found []string
	for _, record := range records {
		found = append(found, family(record, names)...)
		if slices.Contains(names, record) {
			found = append(found, record)
		}
	}
	return found
}

// settle lets a run put in its place what a reset has brought that was cut off. It is no reason not to run when that fails: it is read where it is.
func (a *Agent) settle() {
	unlock, err := a.store.tryLock()
	if err == nil {
		unlock()
	} else if !errors.Is(err, errLocked) {
		a.log.Warn("what a reset has brought is used from where it is", "error", err)
	}
}
