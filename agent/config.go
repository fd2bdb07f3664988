package agent

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/pelletier/go-toml/v2"

	"github.com/better-compute/better-compute/fault"
)

// Defaults of bcd.
const (
	// DefaultConfigFile is read when no other is named; it may be absent.
	DefaultConfigFile = "/etc/bcd/config.toml"
	// DefaultStateDir keeps the identity.
	DefaultStateDir = "/var/lib/bcd"
	// DefaultPort is added to a server that names none.
	DefaultPort = "8443"
)

// AttestorToken is the way to join by a single-use token.
const AttestorToken = "token"

// Config is bcd's configuration, from its file and its flags.
type Config struct {
	// Servers are gateways as host:port; the next one is tried when one fails. `server` in the file is one address or a list. Empty: those that
	// were given at the join.
	Servers []string
	// CAFingerprint is the SHA-256 of the control plane's root certificate in DER, 64 hex digits. A join needs it; later it may be left out.
	CAFingerprint string
	// StateDir is where the identity is kept. Empty: DefaultStateDir.
	StateDir string
	// Attestor says how the machine proves at a join that it may: "token".
	Attestor string
	// TokenFile holds the join token; "-" is standard input. A token is never an argument of the command line, where every user could read it.
	TokenFile string
	// Allow lists the commands that operators may run on this machine. Empty: none. This version runs none whatever it says.
	Allow []string
}

// configFile is the layout of config.toml.
type configFile struct {
	Server        any    `toml:"server"`
	CAFingerprint string `toml:"ca_fingerprint"`
	StateDir      string `toml:"state_dir"`
	Join          struct {
		Attestor  string `toml:"attestor"`
		TokenFile string `toml:"token_file"`
	} `toml:"join"`
	Commands struct {
		Allow []string `toml:"allow"`
	} `toml:"commands"`
}

// LoadConfig reads a configuration file. An absent one is an empty configuration when optional is true. A setting that bcd does not know is an
// INVALID_INPUT, so that a misspelt one is not silently left out.
func LoadConfig(path string, optional bool) (Config, error) {
	content, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) && optional {
		return Config{}, nil
	}
	if err != nil {
		return Config{}, fault.New(fault.InvalidInput, fault.Details{"argument": "config"}, "read the configuration: %w", err)
	}
	config, err := ParseConfig(content)
	if err != nil {
		return Config{}, fault.New(fault.InvalidInput, fault.Details{"argument": "config"}, "%s: %w", path, err)
	}
	return config, nil
}

// ParseConfig reads a configuration from its text.
func ParseConfig(content []byte) (Config, error) {
	var file configFile
	decoder := toml.NewDecoder(bytes.NewReader(content)).DisallowUnknownFields()
	if err := decoder.Decode(&file); err != nil {
		var strict *toml.StrictMissingError
		if errors.As(err, &strict) && len(strict.Errors) > 0 {
			row, _ := strict.Errors[0].Position()
			return Config{}, fmt.Errorf("line %d: bcd knows no setting %s", row, strings.Join(strict.Errors[0].Key(), "."))
		}
		return Config{}, fmt.Errorf("not TOML as bcd reads it: %w", err)
	}
	config := Config{
		CAFingerprint: file.CAFingerprint, StateDir: file.StateDir,
		Attestor: file.Join.Attestor, TokenFile: file.Join.TokenFile, Allow: file.Commands.Allow,
	}
	switch server := file.Server.(type) {
	case nil:
	case string:
		config.Servers = []string{server}
	case []any:
		for _, one := range server {
			text, ok := one.(string)
			if !ok {
				return Config{}, errors.New("server must be a text or a list of texts")
			}
			config.Servers = append(config.Servers, text)
		}
	default:
		return Config{}, errors.New("server must be a text or a list of texts")
	}
	return config, nil
}

// Check completes the configuration and refuses what can't work, before anything is read or dialled. Every error is an INVALID_INPUT.
func (c Config) Check() (Config, error) {
	servers := make([]string, 0, len(c.Servers))
	for _, server := range c.Servers {
		checked, err := checkServer(server)
		if err != nil {
			return Config{}, err
		}
		servers = append(servers, checked)
	}
	c.Servers = servers
	if c.CAFingerprint != "" {
		c.CAFingerprint = strings.ToLower(c.CAFingerprint)
		if b, err := hex.DecodeString(c.CAFingerprint); err != nil || len(b) != 32 {
			return Config{}, fault.Invalid("ca_fingerprint", "must be the 64 hex digits of a SHA-256, as join-tokens create printed them", 0)
		}
	}
	if c.StateDir == "" {
		c.StateDir = DefaultStateDir
	}
	dir, err := filepath.Abs(c.StateDir)
	if err != nil {
		return Config{}, fault.New(fault.InvalidInput, fault.Details{"argument": "state_dir"}, "state_dir: %w", err)
	}
	c.StateDir = dir
	if c.Attestor == "" {
		c.Attestor = AttestorToken
	}
	if c.Attestor != AttestorToken {
		return Config{}, fault.Invalid("attestor", `must be "token"`, 0)
	}
	return c, nil
}

// checkServer completes and checks one address.
func checkServer(server string) (string, error) {
	bad := fault.Invalid("server", "must be host:port of a gateway, without https:// and path", 0)
	if server == "" || strings.ContainsAny(server, "/@ \t\r\n") {
		return "", bad
	}
	host, port, err := net.SplitHostPort(server)
	if err != nil {
		host, port = strings.Trim(server, "[]"), DefaultPort
		if strings.Contains(host, ":") && net.ParseIP(host) == nil {
			return "", bad
		}
	}
	if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 || host == "" {
		return "", bad
	}
	return net.JoinHostPort(host, port), nil
}
