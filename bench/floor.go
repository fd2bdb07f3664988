package main

import (
	"bufio"
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net"
	"os"
	"os/exec"
	"strings"
	"sync"
	"time"
)

// floor is a server that does the least, in a process of its own so that its CPU and memory can be told from its clients'.
type floor struct {
	address string
	cmd     *exec.Cmd
	stdin   io.WriteCloser
	stdout  *bufio.Reader
}

// startFloor starts this program anew as one of the servers of [serveFloor].
func startFloor(ctx context.Context, kind string, env ...string) (*floor, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	f := &floor{cmd: exec.CommandContext(ctx, self, "-floor", kind)}
	f.cmd.Env, f.cmd.Stderr = append(os.Environ(), env...), os.Stderr
	if f.stdin, err = f.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := f.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := f.cmd.Start(); err != nil {
		return nil, err
	}
	f.stdout = bufio.NewReader(out)
	f.address, err = f.stdout.ReadString('\n')
	f.address = strings.TrimSpace(f.address)
	if err != nil {
		f.stop()
	}
	return f, err
}

func (f *floor) cpu() time.Duration { return cpuOf(f.cmd.Process.Pid)() }

// stop ends the server: it runs until its input ends.
func (f *floor) stop() {
	_ = f.stdin.Close()
	_ = f.cmd.Wait()
}

// serveFloor is the other side of [startFloor]. It prints its address, and runs until its input ends.
//
// "frames" sends each line of its input to every connection, as one message each. "echo" sends back over mutual TLS what it reads.
// The two of "cordon-least" are those of [least], the two of "renew-least" those of [renewLeast].
func serveFloor(kind string, in io.Reader, out io.Writer) error {
	l, err := new(net.ListenConfig).Listen(context.Background(), "tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	defer l.Close()
	lines := bufio.NewReader(in)
	switch kind {
	case "frames":
		if _, err := fmt.Fprintln(out, l.Addr()); err != nil {
			return err
		}
		return frames(l, lines)
	case "echo":
		config, err := floorTLS()
		if err != nil {
			return err
		}
		if _, err := fmt.Fprintln(out, l.Addr()); err != nil {
			return err
		}
		go echo(tls.NewListener(l, config))
		_, err = io.Copy(io.Discard, lines)
		return err
	case "renew-least", "renew-least-together":
		if _, err := fmt.Fprintln(out, l.Addr()); err != nil {
			return err
		}
		go func() {
			if err := serveRenewLeast(l, kind == "renew-least-together"); !errors.Is(err, net.ErrClosed) {
				fmt.Fprintln(os.Stderr, err)
			}
		}()
		_, err = io.Copy(io.Discard, lines)
		return err
	case "cordon-least-one-trip", "cordon-least-two-trips":
		if _, err := fmt.Fprintln(out, l.Addr()); err != nil {
			return err
		}
		go func() {
			if err := serveLeast(l, kind == "cordon-least-two-trips"); !errors.Is(err, net.ErrClosed) {
				fmt.Fprintln(os.Stderr, err)
			}
		}()
		_, err = io.Copy(io.Discard, lines)
		return err
	}
	return fmt.Errorf("no floor %q", kind)
}

func frames(l net.Listener, lines *bufio.Reader) error {
	var mu sync.Mutex
	var all []chan []byte
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			queue := make(chan []byte, 1024)
			mu.Lock()
			all = append(all, queue)
			mu.Unlock()
			queue <- []byte("\n") // from now on it gets every frame; a connection can be open long before it is accepted
			go func() {
				for frame := range queue {
					if _, err := conn.Write(frame); err != nil {
						return
					}
				}
			}()
		}
	}()
	for {
		line, err := lines.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		mu.Lock()
		for _, queue := range all {
			select {
			case queue <- line:
			default: // its reader is stuck
			}
		}
		mu.Unlock()
	}
}

// echo serves connections with a goroutine and a small buffer each, which is the least that a session can have.
func echo(l net.Listener) {
	for {
		conn, err := l.Accept()
		if err != nil {
			return
		}
		secured, ok := conn.(*tls.Conn)
		if !ok {
			return
		}
		go func() {
			// The handshake's deep stack ends with this goroutine.
			if secured.HandshakeContext(context.Background()) == nil {
				go echoOne(secured)
			}
		}()
	}
}

func echoOne(conn *tls.Conn) {
	defer conn.Close()
	buffer := make([]byte, 64)
	for {
		n, err := conn.Read(buffer)
		if err != nil {
			return
		}
		if _, err := conn.Write(buffer[:n]); err != nil {
			return
		}
	}
}

// floorTLS asks for a client's certificate as the gateway does, and believes any.
func floorTLS() (*tls.Config, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), DNSNames: []string{floorName}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, err
	}
	return &tls.Config{
		MinVersion: tls.VersionTLS13, Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}},
		ClientAuth: tls.RequireAnyClientCert, SessionTicketsDisabled: true,
	}, nil
}

const floorName = "floor.invalid"

// send has the floor "frames" send a message to all.
func (f *floor) send(frame []byte) error {
	_, err := f.stdin.Write(append(bytes.TrimRight(frame, "\n"), '\n'))
	return err
}
