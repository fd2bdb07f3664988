package cli

import (
	_ "embed"
	"regexp"
	"strings"
)

// The client is written by hand rather than generated: what a command prints as JSON is the server's own text, so the types in answers.go
// hold only what tables and decisions read; one event type serves the query and the subscription, which generators treat apart; and the
// subscription client has to be our own anyway.
//
//go:embed operations.graphql
var operationsText string

// eventsText is the fragment that asks for every field of every family of events; `just generate` makes it of their catalogue.
//
//go:embed events.graphql
var eventsText string

// operation is one operation with the fragments that it names, ready to be sent.
type operation struct {
	name string
	text string
}

var (
	opViewer             = load("query", "Viewer")
	opTenants            = load("query", "Tenants")
	opLog                = load("query", "Log")
	opNodes              = load("query", "Nodes")
	opNodeIDs            = load("query", "NodeIDs")
	opNode               = load("query", "Node")
	opNodeDevices        = load("query", "NodeDevices")
	opNodeDrains         = load("query", "NodeDrains")
	opDrains             = load("query", "Drains")
	opDrainPlan          = load("query", "DrainPlan")
	opEvents             = load("query", "Events")
	opPools              = load("query", "Pools")
	opJoinTokens         = load("query", "JoinTokens")
	opReservations       = load("query", "Reservations")
	opNodeCordon         = load("mutation", "NodeCordon")
	opNodeUncordon       = load("mutation", "NodeUncordon")
	opNodeDrain          = load("mutation", "NodeDrain")
	opNodeTaint          = load("mutation", "NodeTaint")
	opNodeDelete         = load("mutation", "NodeDelete")
	opNodeAdopt          = load("mutation", "NodeAdopt")
	opNodeLabel          = load("mutation", "NodeLabel")
	opSelectionCreate    = load("mutation", "NodeSelectionCreate")
	opNodesCordon        = load("mutation", "NodesCordon")
	opNodesUncordon      = load("mutation", "NodesUncordon")
	opNodesDrain         = load("mutation", "NodesDrain")
	opNodesTaint         = load("mutation", "NodesTaint")
	opNodesLabel         = load("mutation", "NodesLabel")
	opNodesAdopt         = load("mutation", "NodesAdopt")
	opOperationStop      = load("mutation", "NodesOperationStop")
	opOperations         = load("query", "NodesOperations")
	opOperation          = load("query", "NodesOperation")
	opFollowOperation    = load("subscription", "FollowOperation")
	opReservationCreate  = load("mutation", "ReservationCreate")
	opReservationRelease = load("mutation", "ReservationRelease")
	opJoinTokenCreate    = load("mutation", "JoinTokenCreate")
	opJoinTokenRevoke    = load("mutation", "JoinTokenRevoke")
	opTenantCreate       = load("mutation", "TenantCreate")
	opPoolCreate         = load("mutation", "PoolCreate")
	opNodeEvents         = load("subscription", "NodeEvents")
)

// load takes one operation out of the file. A name that isn't there is a defect of ours, found by the first test that starts.
func load(kind, name string) operation {
	text := definition(kind + " " + name)
	seen := map[string]bool{}
	for rest := text; ; {
		fragment := nextFragment(rest, seen)
		if fragment == "" {
			return operation{name: name, text: text}
		}
		seen[fragment] = true
		text += "\n" + definition("fragment "+fragment)
		rest = text
	}
}

var spread = regexp.MustCompile(`\.\.\.([A-Z]\w*)`)

func nextFragment(text string, seen map[string]bool) string {
	for _, match := range spread.FindAllStringSubmatch(text, -1) {
		if !seen[match[1]] {
			return match[1]
		}
	}
	return ""
}

func definition(head string) string {
	for paragraph := range strings.SplitSeq(operationsText+"\n"+eventsText, "\n\n") {
		after, ok := strings.CutPrefix(strings.TrimSpace(paragraph), head)
		if ok && (after[0] == ' ' || after[0] == '(') {
			return strings.TrimSpace(paragraph)
		}
	}
	panic("cli: operations.graphql and events.graphql hold no " + head)
}
