package agent

import (
	"errors"
	"log/slog"
	"path/filepath"
	"time"

	"github.com/better-compute/better-compute/fault"
)

// Agent is bcd on one machine.
type Agent struct {
	config  Config
	machine Machine
	version string
	log     *slog.Logger
	store   *store
	rhythm  rhythm
	clock   func() time.Time
	cable   Dial
}

// Options are what an Agent is made of.
type Options struct {
	// Config has passed Check.
	Config Config
	// Machine is the hardware.
	Machine Machine
	// Version is bcd's own, as the control plane shows it.
	Version string
	// Clock is the machine's clock; nil is this process's. It may be wrong: it is told to the control plane, and decides nothing there.
	Clock func() time.Time
	// Dial opens connections to gateways; nil is the network itself. Simulations cut them off as a power loss does.
	Dial Dial
	// Log gets what happens; no secret is ever written to it.
	Log *slog.Logger
}

// New makes an Agent. Nothing is read, written or dialled yet.
func New(o Options) *Agent {
	clock := o.Clock
	if clock == nil {
		clock = time.Now
	}
	return &Agent{
		config: o.Config, machine: o.Machine, version: o.Version, log: o.Log, rhythm: defaultRhythm, clock: clock, cable: o.Dial,
		store: &store{dir: o.Config.StateDir, disk: localDisk{}, log: o.Log},
	}
}

// ErrJoined is in the chain of the error that says that this machine has joined already.
var ErrJoined = errors.New("already joined")

// errNotJoined is in the chain of the error that says that there is no credential.
var errNotJoined = errors.New("not joined")

// identity reads the stored identity; found is false only when there surely is none.
func (a *Agent) identity() (Identity, bool, error) { return a.store.identity() }

// credential reads a stored credential: the one in use or the next one. found is false only when there surely is none.
func (a *Agent) credential(record string) (*Credential, bool, error) {
	return a.store.credential(record)
}

// joined gives the credential of a machine that has joined.
func (a *Agent) joined() (*Credential, error) {
	if err := checkStateDir(a.config.StateDir); err != nil {
		if isAbsent(err) {
			return nil, a.notJoined()
		}
		return nil, err
	}
	credential, found, err := a.credential(credentialRecord)
	if err != nil {
		return nil, err
	}
	if !found {
		return nil, a.notJoined()
	}
	if pin := a.config.CAFingerprint; pin != "" && pin != credential.RootFingerprint() {
		return nil, fault.New(fault.InvalidState, nil,
			"this machine joined a control plane with the root %s, and the configuration names %s; correct ca_fingerprint, or join anew with --reset --yes",
			credential.RootFingerprint(), pin)
	}
	return credential, nil
}

func (a *Agent) notJoined() error {
	return fault.New(fault.Unauthenticated, nil, "this machine has %w (%s holds no credential); run bcd join with a join token", errNotJoined, a.config.StateDir)
}

// servers gives the gateways to try: the configured ones, else those that the join knew.
func (a *Agent) servers(credential *Credential) ([]string, error) {
	if len(a.config.Servers) > 0 {
		return a.config.Servers, nil
	}
	if credential != nil && len(credential.Servers) > 0 {
		return credential.Servers, nil
	}
	return nil, fault.Invalid("server", "must name a gateway, in the configuration or by --server", 0)
}

// sessionFile is where run leaves what status shows; runLock is held as long as run runs.
func (a *Agent) sessionFile() string { return filepath.Join(a.config.StateDir, "session.json") }
func (a *Agent) runLock() string     { return filepath.Join(a.config.StateDir, "run.lock") }
