package fault_test

import (
	"errors"
	"fmt"
	"io"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/better-compute/better-compute/fault"
)

func TestCodeOf(t *testing.T) {
	t.Parallel()
	// A code is found through any wrapping; an error without one is INTERNAL; no error has no code.
	require.Equal(t, fault.Code(""), fault.CodeOf(nil))
	require.Equal(t, fault.Internal, fault.CodeOf(io.EOF))
	require.Equal(t, fault.Conflict, fault.CodeOf(fmt.Errorf("cordon: %w", fault.New(fault.Conflict, nil, "changed"))))
}

func TestFrom(t *testing.T) {
	t.Parallel()
	// The text of an unknown error is kept for the log and never becomes the sentence.
	f := fault.From(errors.New("dial tcp: secret host"))
	require.Equal(t, fault.Internal, f.Code)
	require.NotContains(t, f.Message, "secret")
	require.ErrorContains(t, errors.Unwrap(f), "secret host")
}

func TestInvalid(t *testing.T) {
	t.Parallel()
	// The details name argument, rule and length.
	f := fault.Invalid("reason", "must be at most 256 characters", 257)
	require.Equal(t, fault.InvalidInput, f.Code)
	require.Equal(t, fault.Details{"argument": "reason", "rule": "must be at most 256 characters", "length": 257}, f.Details)
	require.Equal(t, "reason: must be at most 256 characters", f.Error())
}
