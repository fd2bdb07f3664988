package agent

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"
)

// SessionState says what bcd run is about.
type SessionState string

// The states of bcd run.
const (
	// Connecting: a gateway is being dialled, or has not answered Hello yet.
	Connecting SessionState = "CONNECTING"
	// Connected: the session is open.
	Connected SessionState = "CONNECTED"
	// Waiting: the session is lost; the next try comes at NextTryAt.
	Waiting SessionState = "WAITING"
	// Refused: the control plane does not want this machine's certificate; Reason says why.
	Refused SessionState = "REFUSED"
	// Stopped: bcd run ended in order.
	Stopped SessionState = "STOPPED"
)

// Session is what bcd run last wrote down about its session.
type Session struct {
	// State is where it stood.
	State SessionState `json:"state"`
	// Since is when that began, by the machine's clock.
	Since time.Time `json:"since"`
	// Server is the gateway that it was about.
	Server string `json:"server,omitempty"`
	// Serial is that of the certificate that it was about.
	Serial string `json:"serial,omitempty"`
	// Reason is the gateway's reason for a refusal.
	Reason string `json:"reason,omitempty"`
	// Message is the sentence that belongs to a loss or refusal.
	Message string `json:"message,omitempty"`
	// NextTryAt is when the next connect comes; zero when none is planned.
	NextTryAt time.Time `json:"nextTryAt,omitzero"`
}

// Status is what a machine knows of its own membership without asking anyone.
type Status struct {
	// Joined tells whether there is a credential.
	Joined bool `json:"joined"`
	// StateDir is where the identity is kept.
	StateDir string `json:"stateDir"`
	// Key is the identity's fingerprint; it can be there without a credential.
	Key string `json:"key,omitempty"`
	// NodeID is the node that the machine is.
	NodeID string `json:"nodeId,omitempty"`
	// TrustDomain names the control plane.
	TrustDomain string `json:"trustDomain,omitempty"`
	// Servers are the gateways that bcd run uses.
	Servers []string `json:"servers,omitempty"`
	// Serial is the serial number of the certificate in use, in hex.
	Serial string `json:"serial,omitempty"`
	// Generation is the identity generation in the certificate.
	Generation int64 `json:"generation,omitempty"`
	// NotBefore and NotAfter bound the certificate's validity.
	NotBefore time.Time `json:"notBefore,omitzero"`
	NotAfter  time.Time `json:"notAfter,omitzero"`
	// Running tells whether a bcd run holds this state directory right now.
	Running bool `json:"running"`
	// Session is what bcd run last wrote down; absent when it never ran. While Running is false it is history.
	Session *Session `json:"session,omitempty"`
	// Reset is a reset that was cut off, or is under way right now; else absent.
	Reset *Reset `json:"reset,omitempty"`
}

// Status reads what the machine knows. It changes nothing and dials nothing; a machine that has not joined is no error.
func (a *Agent) Status() (Status, error) {
	status := Status{StateDir: a.config.StateDir}
	if err := checkStateDir(a.config.StateDir); err != nil {
		if isAbsent(err) {
			return status, nil
		}
		return status, err
	}
	identity, found, err := a.identity()
	if err != nil {
		return status, err
	}
	if found {
		status.Key = identity.Fingerprint()
	}
	credential, found, err := a.credential(credentialRecord)
	if err != nil {
		return status, err
	}
	if found {
		status.Joined, status.NodeID, status.TrustDomain = true, credential.NodeID, credential.TrustDomain
		status.Serial, status.Generation = credential.Serial(), credential.Generation
		status.NotBefore, status.NotAfter = credential.NotBefore(), credential.NotAfter()
		status.Servers = a.config.Servers
		if len(status.Servers) == 0 {
			status.Servers = credential.Servers
		}
	}
	if status.Reset, err = a.store.cutOff(); err != nil {
		return status, err
	}
	if status.Reset != nil {
		if status.Reset.UnderWay, err = isLocked(a.store.path(lockFile)); err != nil {
			return status, err
		}
	}
	if status.Running, err = isLocked(a.runLock()); err != nil {
		return status, err
	}
	status.Session, err = a.lastSession()
	return status, err
}

// lastSession reads what bcd run wrote down, nil when there is nothing. It is a note: one that was cut off is none.
func (a *Agent) lastSession() (*Session, error) {
	content, err := a.store.disk.read(a.sessionFile())
	if isAbsent(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", a.sessionFile(), err)
	}
	var session Session
	if json.Unmarshal(content, &session) != nil {
		return nil, nil //nolint:nilerr // what a crash cut short tells nothing, as if it were not there
	}
	return &session, nil
}

// tellState writes down what status shows. It is worth a line in the log when that fails, and no more.
func (a *Agent) tellState(session Session) {
	session.Since = a.clock().UTC()
	session.NextTryAt = session.NextTryAt.UTC()
	content, err := json.Marshal(session)
	if err == nil {
		temporary := a.sessionFile() + "." + random(8) + ".tmp"
		if err = a.store.disk.write(temporary, append(content, '\n')); err == nil {
			err = a.store.disk.rename(temporary, a.sessionFile())
		}
		if err != nil {
			_ = a.store.disk.remove(temporary)
		}
	}
	if err != nil {
		a.log.Warn("the state of the session can't be written down", "error", err)
	}
}

// isLocked says whether someone holds a lock file. It makes none.
func isLocked(path string) (bool, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NOFOLLOW, 0)
	if isAbsent(err) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("look at the lock file: %w", err)
	}
	defer func() { _ = f.Close() }()
	err = syscall.Flock(int(f.Fd()), syscall.LOCK_SH|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return true, nil
	}
	if err != nil {
		return false, fmt.Errorf("look at the lock file: %w", err)
	}
	return false, nil
}
