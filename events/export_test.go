package events

// The tests of this package are about the log, and write types that nobody else does.
func init() { strict = false }
