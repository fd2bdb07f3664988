package cli

import (
	"context"
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/pelletier/go-toml/v2"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/better-compute/better-compute/fault"
	"github.com/better-compute/better-compute/id"
)

const settingsHelp = `Which server, as whom and for which tenant: the first of these that says it counts.

  1. --server, --token-file, --tenant; and what --context names
  2. BETTER_COMPUTE_SERVER, BETTER_COMPUTE_TOKEN, BETTER_COMPUTE_TOKEN_FILE, BETTER_COMPUTE_TENANT
  3. the config file's own choice of context
  4. on the server's host: the files address and admin.token of the default data directory
     (as root /var/lib/better-compute, else $XDG_DATA_HOME/better-compute or ~/.local/share/better-compute)

A token from a context or from the data directory is only ever sent to the server that stands beside it.
Without a tenant the only one that you hold a grant in is taken, else the one named default.

The config file is $XDG_CONFIG_HOME/better-compute/config.toml, or ~/.config/better-compute/config.toml:

  context = "lab"

  [contexts.lab]
  server = "https://compute.example.org"
  token_file = "/home/sam/.config/better-compute/lab.token"
  tenant = "acme"

No secret is ever given on the command line: a token is read from a file or the environment.
NO_COLOR switches colours off; they are off anyway where no terminal is.
`

func settingsTopic() *cobra.Command {
	return &cobra.Command{Use: "settings", Short: "Which server, token and tenant the commands use", Long: settingsHelp}
}

// flags are those that every client command takes.
type flags struct {
	server, tokenFile, tenant, context string
	output                             string
	jq                                 jqFlag
}

func (f *flags) register(set *pflag.FlagSet) {
	set.StringVar(&f.server, "server", "", "the server's `URL`")
	set.StringVar(&f.tokenFile, "token-file", "", "a `file` that holds the bearer token")
	set.StringVar(&f.tenant, "tenant", "", "the `tenant` that asks or acts")
	set.StringVar(&f.context, "context", "", "a context of the config file, by its `name`")
	set.VarP((*formatFlag)(&f.output), "output", "o", "table, wide, json, ndjson, yaml or name")
	set.Var(&f.jq, "jq", "print what this jq `filter` makes of the JSON")
}

// settings say where the server is and who asks.
type settings struct {
	server string
	token  string
	tenant string
}

// place is one source of settings. Its token may only go to its own server.
type place struct {
	Server    string `toml:"server"`
	TokenFile string `toml:"token_file"`
	Tenant    string `toml:"tenant"`
}

type configFile struct {
	Context  string           `toml:"context"`
	Contexts map[string]place `toml:"contexts"`
}

// settings finds them once a run; nothing is sent.
func (a *app) settings() (*settings, error) {
	if a.resolved != nil {
		return a.resolved, nil
	}
	file, path, err := a.readConfig()
	if err != nil {
		return nil, err
	}
	var chosen place
	name := a.flags.context
	if name == "" {
		name = file.Context
	}
	if name != "" {
		var ok bool
		if chosen, ok = file.Contexts[name]; !ok {
			return nil, unknownContext(name, path, file)
		}
	}
	var named, fallback place
	if a.flags.context != "" {
		named = chosen
	} else {
		fallback = chosen
	}
	data := a.dataDir()

	s := &settings{
		server: first(a.flags.server, named.Server, a.env.get("BETTER_COMPUTE_SERVER"), fallback.Server, address(data)),
		tenant: first(a.flags.tenant, named.Tenant, a.env.get("BETTER_COMPUTE_TENANT"), fallback.Tenant),
	}
	if s.server == "" {
		e := Usage("no server is named: give --server, BETTER_COMPUTE_SERVER or a context of the config file")
		e.Hint = "see better-compute help settings"
		return nil, e
	}
	if s.tenant != "" && id.Tenant("tenant", s.tenant) != nil {
		return nil, Usage("%q can't be a tenant: 1 to 63 lower-case letters, digits and dashes", s.tenant)
	}
	if s.token, err = a.token(s.server, named, fallback, data); err != nil {
		return nil, err
	}
	a.resolved = s
	return s, nil
}

// token reads the first token that is given. One that belongs to another server than the chosen one is passed over: a line that names a foreign
// server must not hand it the admin's token of this host.
func (a *app) token(server string, named, fallback place, data string) (string, error) {
	if a.flags.tokenFile != "" {
		return readToken(a.flags.tokenFile)
	}
	if named.TokenFile != "" && named.Server == server {
		return readToken(named.TokenFile)
	}
	if token := strings.TrimSpace(a.env.get("BETTER_COMPUTE_TOKEN")); token != "" {
		return token, nil
	}
	if path := a.env.get("BETTER_COMPUTE_TOKEN_FILE"); path != "" {
		return readToken(path)
	}
	if fallback.TokenFile != "" && fallback.Server == server {
		return readToken(fallback.TokenFile)
	}
	if data != "" && address(data) == server {
		return readToken(filepath.Join(data, "admin.token"))
	}
	return "", &Error{Code: string(fault.Unauthenticated), Message: "no token for " + server}
}

func readToken(path string) (string, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return "", &Error{Code: string(fault.Unauthenticated), Message: "the token can't be read: " + err.Error(), cause: err}
	}
	token := strings.TrimSpace(string(b))
	if token == "" || strings.ContainsAny(token, " \t\r\n") {
		return "", &Error{Code: string(fault.Unauthenticated), Message: path + " holds no token"}
	}
	return token, nil
}

func (a *app) readConfig() (configFile, string, error) {
	var file configFile
	path := a.configPath()
	if path == "" {
		return file, path, nil
	}
	b, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return file, path, nil
	}
	if err != nil {
		return file, path, Usage("the config file can't be read: %v", err)
	}
	file, err = parseConfig(path, string(b))
	return file, path, err
}

// parseConfig reads what stands in the settings file; the path is for what it says when that can't be read.
func parseConfig(path, content string) (configFile, error) {
	var file configFile
	decoder := toml.NewDecoder(strings.NewReader(content)).DisallowUnknownFields()
	if err := decoder.Decode(&file); err != nil {
		if strict, ok := errors.AsType[*toml.StrictMissingError](err); ok {
			return file, Usage("%s: unknown setting %s", path, strings.Join(strict.Errors[0].Key(), "."))
		}
		return file, Usage("%s: %v", path, err)
	}
	return file, nil
}

func unknownContext(name, path string, file configFile) error {
	e := Usage("%s holds no context %q", path, name)
	if names := slices.Sorted(maps.Keys(file.Contexts)); len(names) > 0 {
		e.Hint = "it holds " + strings.Join(names, ", ")
	}
	return e
}

func (a *app) configPath() string { return a.userDir("XDG_CONFIG_HOME", ".config", "config.toml") }

// dataDir is where serve keeps its files by default.
func (a *app) dataDir() string {
	if a.env.Root {
		return "/var/lib/better-compute"
	}
	return a.userDir("XDG_DATA_HOME", filepath.Join(".local", "share"), "")
}

// userDir gives a path under one of the user's own directories; empty where the user has none.
func (a *app) userDir(variable, below, name string) string {
	base := a.env.get(variable)
	if !filepath.IsAbs(base) {
		home := a.env.get("HOME")
		if home == "" {
			return ""
		}
		base = filepath.Join(home, below)
	}
	return filepath.Join(base, "better-compute", name)
}

// address reads where a server with that data directory listens. No file, no server: that is no error.
func address(data string) string {
	if data == "" {
		return ""
	}
	b, err := os.ReadFile(filepath.Join(data, "address"))
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(b))
}

func first(values ...string) string {
	for _, v := range values {
		if v != "" {
			return v
		}
	}
	return ""
}

// client gives the way to the server.
func (a *app) client() (*client, error) {
	if a.api != nil {
		return a.api, nil
	}
	s, err := a.settings()
	if err != nil {
		return nil, err
	}
	a.api, err = newClient(s.server, s.token)
	return a.api, err
}

// asTenant gives the way to the server and the tenant that asks: the one that is set, else the only one the caller holds a grant in, else the
// one named default.
func (a *app) asTenant(ctx context.Context) (*client, string, error) {
	c, err := a.client()
	if err != nil {
		return nil, "", err
	}
	if a.resolved.tenant != "" {
		return c, a.resolved.tenant, nil
	}
	var answer struct {
		Viewer struct {
			Name    string   `json:"name"`
			Tenants []tenant `json:"tenants"`
		} `json:"viewer"`
	}
	if err := c.do(ctx, opViewer, nil, &answer); err != nil {
		return nil, "", err
	}
	var ids []string
	for _, t := range answer.Viewer.Tenants {
		ids = append(ids, t.ID)
	}
	switch {
	case len(ids) == 1:
		a.resolved.tenant = ids[0]
	case slices.Contains(ids, "default"):
		a.resolved.tenant = "default"
	case len(ids) == 0:
		return nil, "", &Error{Code: string(fault.Forbidden), Message: answer.Viewer.Name + " holds no grant in any tenant"}
	default:
		e := Usage("which tenant? give --tenant or BETTER_COMPUTE_TENANT")
		e.Hint = "you hold grants in " + strings.Join(ids, ", ")
		return nil, "", e
	}
	return c, a.resolved.tenant, nil
}

func (a *app) completeContexts(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	file, _, err := a.readConfig()
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return slices.Sorted(maps.Keys(file.Contexts)), cobra.ShellCompDirectiveNoFileComp
}
