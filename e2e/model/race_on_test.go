//go:build race

package model_test

// raced says that the race detector is on, under which the same work takes several times as long.
const raced = true
