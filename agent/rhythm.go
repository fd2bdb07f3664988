package agent

import (
	"math/rand/v2"
	"time"
)

// gpuPatience bounds one conversation with the GPU driver.
const gpuPatience = 20 * time.Second

// longestPause bounds what a gateway may ask for.
const longestPause = 15 * time.Minute

// rhythm holds the lengths of the pauses that bcd makes. Tests shorten them.
type rhythm struct {
	// first and most bound the pause before a reconnect: it is drawn from 0 to first, then to twice that, up to most.
	first, most time.Duration
	// steady is how long a session must have been open for the next loss to count as the first.
	steady time.Duration
	// refused is the pause after a refusal, give or take a tenth.
	refused time.Duration
	// look is how often a refused bcd looks whether the machine was joined anew.
	look time.Duration
	// inventory and report say how often the machine is looked at.
	inventory, report time.Duration
	// renewSoon bounds the pause before a renewal that is overdue, renewLater is the one after a renewal that came to nothing.
	renewSoon, renewLater time.Duration
}

var defaultRhythm = rhythm{
	first: 2 * time.Second, most: 30 * time.Second, steady: 30 * time.Second, refused: 5 * time.Minute, look: 2 * time.Second,
	inventory: 5 * time.Minute, report: 10 * time.Second, renewSoon: time.Minute, renewLater: 10 * time.Minute,
}

// retry gives the pause before the next connect: anything up to a bound that doubles with each failure, the first one too, so that machines which
// lost one gateway together come back spread out. What the gateway asked for is waited first.
func (r rhythm) retry(failures int, asked time.Duration) time.Duration {
	bound := r.first
	for range min(failures, 16) {
		if bound *= 2; bound >= r.most {
			bound = r.most
			break
		}
	}
	// A gateway that asks many to stay away for the same time must not get them back in the same moment.
	bound = max(bound, asked/2)
	return asked + upTo(bound)
}

// refusedPause gives the pause after a refusal.
func (r rhythm) refusedPause() time.Duration {
	return r.refused - r.refused/10 + upTo(r.refused/5)
}

// renewAgain gives the pause after which a renewal is tried again if nothing came of it.
func (r rhythm) renewAgain() time.Duration { return r.renewLater + upTo(r.renewLater) }

// upTo draws a pause from 0 to d.
func upTo(d time.Duration) time.Duration {
	return rand.N(max(d, 1)) //nolint:gosec // it spreads pauses and keeps no secret
}

// turn goes through the servers, from one of chance on, so that a fleet with one list spreads over it.
type turn struct{ at int }

func newTurn() *turn { return &turn{at: int(upTo(1 << 16))} }

func (t *turn) of(servers []string) string { return servers[t.at%len(servers)] }
func (t *turn) next()                      { t.at++ }
