//go:build unix && !linux

package testenv

// Memory is a folder that lies in memory; nobody promises one here.
func Memory() string { return "" }
