package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/better-compute/better-compute/fault"
)

// Exit is the number with which a command ends.
type Exit int

// The numbers. The words beside them, for people, are in the table below.
const (
	ExitOK              Exit = 0
	ExitUnexpected      Exit = 1
	ExitUsage           Exit = 2
	ExitNotFound        Exit = 3
	ExitUnauthenticated Exit = 4
	ExitForbidden       Exit = 5
	ExitConflict        Exit = 6
	ExitInvalidState    Exit = 7
	ExitTimedOut        Exit = 8
	ExitUnreachable     Exit = 9
	ExitCursorExpired   Exit = 10
	ExitPartlyFailed    Exit = 11
	ExitAlreadyJoined   Exit = 12
	ExitInterrupted     Exit = 130
)

// Codes of the command line's own ends, beside those of the API.
const (
	codeTimedOut    = "TIMED_OUT"
	codeCancelled   = "CANCELLED"
	codeInterrupted = "INTERRUPTED"
	codePartly      = "PARTLY_FAILED"
)

// exits is the one table of exit codes: commands end by it and `help exit-codes` prints it.
var exits = []struct {
	exit    Exit
	codes   []string
	meaning string
}{
	{ExitOK, nil, "done, also when nothing had to change"},
	{ExitUnexpected, []string{string(fault.Internal)}, "something unexpected went wrong"},
	{ExitUsage, []string{string(fault.InvalidInput)}, "the command line is wrong: unknown flag or value, malformed id, missing --yes"},
	{ExitNotFound, []string{string(fault.NotFound)}, "not there, or not visible to the tenant"},
	{ExitUnauthenticated, []string{string(fault.Unauthenticated)}, "not signed in: no token, or one that no longer counts"},
	{ExitForbidden, []string{string(fault.Forbidden)}, "signed in, but without the grant for this action"},
	{ExitConflict, []string{string(fault.Conflict)}, "not as --if-version, --if-cordoned-by or --expect-count says"},
	{ExitInvalidState, []string{string(fault.InvalidState), codeCancelled}, "not possible in this state; also a wait whose drain was cancelled"},
	{ExitTimedOut, []string{codeTimedOut}, "timed out waiting; what was waited for goes on"},
	{ExitUnreachable, []string{string(fault.Unavailable), string(fault.ResourceExhausted)}, "the server can't be reached, or can't answer now"},
	{ExitCursorExpired, []string{string(fault.CursorExpired)}, "the log no longer holds the position that --after names"},
	{ExitPartlyFailed, []string{codePartly}, "some of several targets failed"},
	{ExitAlreadyJoined, nil, "this machine has joined already (bcd)"},
	{ExitInterrupted, []string{codeInterrupted}, "interrupted, by Ctrl-C for instance"},
}

func exitOf(code string) Exit {
	for _, row := range exits {
		if slices.Contains(row.codes, code) {
			return row.exit
		}
	}
	return ExitUnexpected
}

// Error is why a command ended: a code that gives the exit, a sentence, and what helps further.
type Error struct {
	Code      string
	Message   string
	Hint      string
	RequestID string
	Details   fault.Details

	// passing is set where another try may help: the server was not reached, or said so.
	passing bool
	// unsure is set where what was asked for may have been done: the call went out, and no answer came.
	unsure bool
	cause  error
}

// Error gives the sentence.
func (e *Error) Error() string { return e.Message }

// Unwrap gives what led to it.
func (e *Error) Unwrap() error { return e.cause }

// Exit gives the number that belongs to the code.
func (e *Error) Exit() Exit { return exitOf(e.Code) }

// Usage makes the error of a command line that is wrong, found before anything is sent.
func Usage(format string, args ...any) *Error {
	return &Error{Code: string(fault.InvalidInput), Message: fmt.Sprintf(format, args...)}
}

func unavailable(cause error, format string, args ...any) *Error {
	return &Error{Code: string(fault.Unavailable), Message: fmt.Sprintf(format, args...), passing: true, cause: cause}
}

func passing(err error) bool {
	var e *Error
	return errors.As(err, &e) && e.passing
}

// asError gives any error its code: faults keep theirs, an ended context is an interruption, the rest is unexpected.
func asError(err error) *Error {
	if e, ok := errors.AsType[*Error](err); ok {
		return e
	}
	if errors.Is(err, context.Canceled) {
		return &Error{Code: codeInterrupted, Message: "interrupted", cause: err}
	}
	if f, ok := errors.AsType[*fault.Error](err); ok {
		return &Error{Code: string(f.Code), Message: f.Message, Details: f.Details, cause: err}
	}
	return &Error{Code: string(fault.Internal), Message: err.Error(), cause: err}
}

// hint says what to do next, where the code alone tells it.
func (e *Error) hint() string {
	if e.Hint != "" {
		return e.Hint
	}
	switch e.Code {
	case string(fault.Unauthenticated):
		return "give a token with --token-file, BETTER_COMPUTE_TOKEN_FILE or BETTER_COMPUTE_TOKEN; see better-compute help settings"
	case string(fault.Conflict):
		// A version is a number; of a cordon it is the author who is another than was expected.
		switch actual := e.Details["actual"].(type) {
		case float64:
			return fmt.Sprintf("look at it again, then repeat with --if-version %v", actual)
		case string:
			return "look at it again, then repeat with --if-cordoned-by " + actual
		}
		return "look at it again, then repeat"
	case string(fault.CursorExpired):
		if oldest, ok := e.Details["oldest"].(string); ok && oldest != "" {
			return "events before the oldest kept one are gone; go on from it with --after " + oldest
		}
		return "list what is there now, and follow from there"
	case string(fault.Internal):
		if e.RequestID != "" {
			return "if it stays, report the request id"
		}
	}
	return ""
}

// write puts the error on stderr: lines for people, one JSON object for programs that asked for JSON.
func (e *Error) write(w io.Writer, asJSON bool) {
	if asJSON {
		line, err := marshal(map[string]any{"error": struct {
			Code      string        `json:"code"`
			Message   string        `json:"message"`
			Details   fault.Details `json:"details,omitempty"`
			Hint      string        `json:"hint,omitempty"`
			RequestID string        `json:"requestId,omitempty"`
			ExitCode  Exit          `json:"exitCode"`
		}{e.Code, e.Message, e.Details, e.hint(), e.RequestID, e.Exit()}})
		if err == nil {
			_, _ = fmt.Fprintf(w, "%s\n", line)
			return
		}
	}
	_, _ = fmt.Fprintf(w, "error: %s: %s\n", e.Code, clean(e.Message))
	if hint := e.hint(); hint != "" {
		_, _ = fmt.Fprintf(w, "hint: %s\n", clean(hint))
	}
	if e.RequestID != "" {
		_, _ = fmt.Fprintf(w, "request id %s\n", clean(e.RequestID))
	}
}

func exitCodesHelp() string {
	var b strings.Builder
	b.WriteString("Every command ends with one of these numbers. The codes are those of the API and of the errors on stderr.\n\n")
	rows := &table{}
	rows.header("EXIT", "CODES", "MEANING")
	for _, row := range exits {
		rows.row(fmt.Sprint(int(row.exit)), strings.Join(row.codes, " "), row.meaning)
	}
	_ = rows.write(&b)
	return b.String()
}
