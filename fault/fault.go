// Package fault holds the closed list of error codes and the one error type that carries them.
//
// A fault is a code for programs, a sentence for the person who reads it, and details for both. Each edge translates it once: GraphQL into
// extensions, the gateway into a status and a close code, the command line into an exit code. An error without a code is INTERNAL, and its
// text is logged, never shown.
package fault

import (
	"errors"
	"fmt"
)

// Code names what kind of refusal an error is. The list is closed: clients switch on it.
type Code string

// The codes, with the words that the API's contract gives them.
const (
	// Unauthenticated: the caller showed no proof of who it is, or one that no longer counts.
	Unauthenticated Code = "UNAUTHENTICATED"
	// Forbidden: the caller is known and sees the thing, but holds no grant for the action.
	Forbidden Code = "FORBIDDEN"
	// NotFound: the thing does not exist, or the caller's tenant may not see it; the two are never told apart.
	NotFound Code = "NOT_FOUND"
	// Conflict: the thing changed since the version that the caller read.
	Conflict Code = "CONFLICT"
	// InvalidInput: an argument breaks a rule; details name the argument and the rule.
	InvalidInput Code = "INVALID_INPUT"
	// InvalidState: the thing is in a state in which the action is not offered.
	InvalidState Code = "INVALID_STATE"
	// CursorExpired: the log no longer holds, or never held, the position that the cursor names.
	CursorExpired Code = "CURSOR_EXPIRED"
	// ResourceExhausted: a limit was reached; details say after how many milliseconds to come back.
	ResourceExhausted Code = "RESOURCE_EXHAUSTED"
	// Unavailable: something that the act needs does not answer; the outcome may be unknown, a request id tells.
	Unavailable Code = "UNAVAILABLE"
	// Internal: a defect of ours. The sentence shown is neutral, the truth is in the log under the request id.
	Internal Code = "INTERNAL"
)

// Codes lists every code, for edges and tests that must treat them all.
func Codes() []Code {
	return []Code{
		Unauthenticated, Forbidden, NotFound, Conflict, InvalidInput, InvalidState, CursorExpired, ResourceExhausted, Unavailable, Internal,
	}
}

// Details are the facts beside a code, by name. Values are what encoding/json can write.
type Details map[string]any

// Error is a refusal with its code, a sentence that tells the person what to do, and details.
type Error struct {
	Code    Code
	Message string
	Details Details
	cause   error
}

// Error gives the sentence alone, so that it can stand in front of a person as it is.
func (e *Error) Error() string { return e.Message }

// Unwrap gives the error that led to this one, if any.
func (e *Error) Unwrap() error { return e.cause }

// New makes a fault. A %w in the format keeps that error as the cause.
func New(code Code, details Details, format string, args ...any) *Error {
	err := fmt.Errorf(format, args...)
	return &Error{Code: code, Message: err.Error(), Details: details, cause: errors.Unwrap(err)}
}

// Because makes a fault whose sentence does not show its cause: for errors of libraries, which belong in the log and not before a person.
func Because(code Code, cause error, details Details, format string, args ...any) *Error {
	return &Error{Code: code, Message: fmt.Sprintf(format, args...), Details: details, cause: cause}
}

// Invalid makes an INVALID_INPUT that names the argument, the rule it breaks and, where length matters, the length it had (else 0).
func Invalid(argument, rule string, length int) *Error {
	details := Details{"argument": argument, "rule": rule}
	if length > 0 {
		details["length"] = length
	}
	return New(InvalidInput, details, "%s: %s", argument, rule)
}

// CodeOf gives the code of an error: "" for nil, INTERNAL for one that carries none.
func CodeOf(err error) Code {
	if err == nil {
		return ""
	}
	if f, ok := errors.AsType[*Error](err); ok {
		return f.Code
	}
	return Internal
}

// From gives the fault in an error's chain. One without is an INTERNAL with a neutral sentence and the error as its cause.
func From(err error) *Error {
	if f, ok := errors.AsType[*Error](err); ok {
		return f
	}
	return Because(Internal, err, nil, "something went wrong on our side; try again, and if it stays, report the request id")
}
