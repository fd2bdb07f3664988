//go:build !linux

package graph

func setUnsent(uintptr) {}
