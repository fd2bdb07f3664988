// Package id makes and checks the identifiers of the product: TypeIDs, a kind and 26 base32 characters of a UUIDv7 ("node_01k5w…"), and the
// slugs that operators choose for tenants. They are stored, logged and shown as the same text.
package id

import (
	"regexp"
	"strconv"

	"go.jetify.com/typeid"

	"github.com/better-compute/better-compute/fault"
)

// Kind is the prefix that says what an id names.
type Kind string

// The kinds of ids.
const (
	Node        Kind = "node"
	Pool        Kind = "pool"
	Reservation Kind = "res"
	Allocation  Kind = "alloc"
	Command     Kind = "cmd"
	Event       Kind = "evt"
	Drain       Kind = "drn"
	Acceptance  Kind = "adp"
	Certificate Kind = "cert"
	JoinToken   Kind = "jt"
	Session     Kind = "ses"
	Gateway     Kind = "gw"
	Token       Kind = "tok"
	Principal   Kind = "prn"
	Selection   Kind = "sel"
	Operation   Kind = "nop"
)

// New makes a fresh id of the kind. Ids of one kind sort by the time of their making.
func New(k Kind) string {
	t, err := typeid.WithPrefix(string(k))
	if err != nil {
		panic("id: the kind " + strconv.Quote(string(k)) + " is no TypeID prefix: " + err.Error())
	}
	return t.String()
}

// Check says whether s is an id of the kind; if not, it is an INVALID_INPUT that names the argument. Nothing is looked up.
func Check(k Kind, argument, s string) error {
	t, err := typeid.FromString(s)
	if err != nil || t.Prefix() != string(k) {
		return fault.Invalid(argument, "must look like "+string(k)+"_ and 26 characters", len([]rune(s)))
	}
	return nil
}

var slug = regexp.MustCompile(`^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$`)

// Tenant says whether s can name a tenant: 1 to 63 lower-case letters, digits and dashes, neither first nor last a dash.
func Tenant(argument, s string) error { return Slug(argument, s) }

// Slug says whether s can be a name that operators choose: the rule of tenants' ids.
func Slug(argument, s string) error {
	if !slug.MatchString(s) {
		return fault.Invalid(argument, "must be 1 to 63 lower-case letters, digits and dashes, and neither begin nor end with a dash", len([]rune(s)))
	}
	return nil
}
