//go:build unix && !linux

package dbtest

// memory is a folder that lies in memory; nobody promises one here.
func memory() string { return "" }
