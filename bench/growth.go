package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// Growth is how much a row grew when simulated machines beat beside it.
type Growth struct {
	Name     string  `json:"name"`
	Machines int     `json:"machines"`
	Unit     string  `json:"unit"`
	Idle     float64 `json:"idle"` // the row's value without machines
	Busy     float64 `json:"busy"` // the same with them
	Growth   float64 `json:"growth"`
	IdleP99  float64 `json:"idle_p99"` // of one operation, in milliseconds
	BusyP99  float64 `json:"busy_p99"`
	Ratio    float64 `json:"ratio"` // value to floor, both with machines
	Noisy    bool    `json:"noisy"`
	Goal     string  `json:"goal,omitempty"`
	Holds    bool    `json:"holds"`
	// Sessions are the machines that were connected when the row was done.
	Sessions int `json:"sessions"`
}

// spine are the benchmarks whose growth is measured when none is named. The others start the server anew, or are about sessions of their own.
var spine = []string{"cordon", "cordon-16", "drain", "list100", "get", "jobs", "join", "delete"}

// growth runs benchmarks without machines and then beside so many that beat, and prints by how much each row grew.
func growth(ctx context.Context, r *rig, chosen []benchmark, sizeOf func(benchmark) size, machines int, goals map[string]Goal, out *json.Encoder) error {
	idle := map[string]Row{}
	for _, b := range chosen {
		rows, err := b.run(ctx, r, sizeOf(b))
		if err != nil {
			return fmt.Errorf("%s: %w", b.name, err)
		}
		for _, row := range rows {
			idle[row.Name] = row
		}
	}
	stop, err := r.fleet(ctx, machines)
	if err != nil {
		return err
	}
	defer stop()
	for _, b := range chosen {
		if err := r.connected(ctx, machines); err != nil {
			return err
		}
		rows, err := b.run(ctx, r, sizeOf(b))
		if err != nil {
			return fmt.Errorf("%s beside %d machines: %w", b.name, machines, err)
		}
		sessions, err := r.sessions(ctx)
		if err != nil {
			return err
		}
		for _, row := range rows {
			before, goal := idle[row.Name], goals[row.Name]
			err := out.Encode(Growth{
				Name: row.Name, Machines: machines, Unit: row.Unit, Idle: before.Value, Busy: row.Value, Growth: tidy(row.Value / before.Value),
				IdleP99: before.P99, BusyP99: row.P99, Ratio: row.Ratio, Noisy: before.Noisy || row.Noisy, Goal: goal.String(), Holds: goal.within(row, 1),
				Sessions: sessions,
			})
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// fleet starts simulated machines in a process of their own, which do nothing but live.
func (r *rig) fleet(ctx context.Context, n int) (stop func(), err error) {
	token := filepath.Join(r.data(), "admin.token")
	cmd := exec.CommandContext(ctx, r.program, "sim", strconv.Itoa(n), "--still", "--server", r.url, "--gateway", r.gateway, "--token-file", token,
		"--dir", filepath.Join(r.dir, "fleet"), "--log-level", "error")
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = 10 * time.Second
	if os.Getenv("BENCH_LOG") != "" {
		cmd.Stderr = os.Stderr
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	return func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		_ = cmd.Wait()
	}, nil
}

// connected waits until so many machines hold a session.
func (r *rig) connected(ctx context.Context, n int) error {
	have := 0
	for began := time.Now(); time.Since(began) < 5*time.Minute; {
		var err error
		if have, err = r.sessions(ctx); err != nil {
			return err
		}
		if have >= n {
			return nil
		}
		if err := pause(ctx, 200*time.Millisecond); err != nil {
			return err
		}
	}
	return fmt.Errorf("%d of %d machines are connected after 5 minutes", have, n)
}

// sessions gives how many machines hold one, by the server's own count.
func (r *rig) sessions(ctx context.Context) (int, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, r.url+"/metrics", nil)
	if err != nil {
		return 0, err
	}
	req.Header.Set("Authorization", "Bearer "+r.token)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, err
	}
	defer func() { _ = resp.Body.Close() }()
	lines := bufio.NewScanner(resp.Body)
	for lines.Scan() {
		if value, ok := strings.CutPrefix(lines.Text(), "bc_gateway_sessions "); ok {
			return strconv.Atoi(value)
		}
	}
	return 0, fmt.Errorf("no bc_gateway_sessions among the metrics, HTTP %d: %w", resp.StatusCode, lines.Err())
}
