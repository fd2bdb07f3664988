package cli

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
)

// doc is a value of the server, both as it wrote it, which is what -o json prints, and read into what tables and decisions need.
type doc[T any] struct {
	v   T
	raw json.RawMessage
}

// UnmarshalJSON keeps the text and reads it.
func (d *doc[T]) UnmarshalJSON(b []byte) error {
	d.raw = append(json.RawMessage(nil), b...)
	return json.Unmarshal(b, &d.v)
}

// moment is a DateTime of the server as text.
type moment string

// time gives the zero time for an absent moment.
func (m moment) time() time.Time {
	t, err := time.Parse(time.RFC3339Nano, string(m))
	if err != nil {
		return time.Time{}
	}
	return t
}

type pageInfo struct {
	HasNextPage bool    `json:"hasNextPage"`
	EndCursor   *string `json:"endCursor"`
}

type connection[T any] struct {
	Nodes      []doc[T]      `json:"nodes"`
	PageInfo   doc[pageInfo] `json:"pageInfo"`
	TotalCount int           `json:"totalCount"`
	AsOf       string        `json:"asOf"`
}

type named struct {
	ID   string `json:"id"`
	Name string `json:"name"`
}

// node is what tables and decisions read of a ComputeNode. Of lists only the fields of the fragment NodeRow are there.
type node struct {
	ID                  string            `json:"id"`
	Key                 string            `json:"key"`
	TenantID            string            `json:"tenantId"`
	Pool                named             `json:"pool"`
	Hostname            string            `json:"hostname"`
	Version             int               `json:"version"`
	ProvisionState      string            `json:"provisionState"`
	Failure             *failure          `json:"failure"`
	Cordoned            bool              `json:"cordoned"`
	Cordon              *cordon           `json:"cordon"`
	NoScheduleReasons   []string          `json:"noScheduleReasons"`
	Holds               []hold            `json:"holds"`
	Maintenance         bool              `json:"maintenance"`
	Connectivity        string            `json:"connectivity"`
	ConnectivitySince   moment            `json:"connectivitySince"`
	IdentityGeneration  int               `json:"identityGeneration"`
	Labels              []label           `json:"labels"`
	Drain               *drain            `json:"drain"`
	LastDrain           *drain            `json:"lastDrain"`
	LastSeen            moment            `json:"lastSeen"`
	Session             *nodeLink         `json:"session"`
	StatusSentence      string            `json:"statusSentence"`
	OutSince            moment            `json:"outSince"`
	LiveAllocationCount int               `json:"liveAllocationCount"`
	Checks              []acceptanceCheck `json:"checks"`
	Devices             []device          `json:"devices"`
	Inventory           *inventory        `json:"inventory"`
	CreatedAt           moment            `json:"createdAt"`
}

type failure struct {
	Phase   string `json:"phase"`
	Message string `json:"message"`
}

type cordon struct {
	Reason string `json:"reason"`
	By     string `json:"by"`
	At     moment `json:"at"`
	// Until is when its author means it to end.
	Until   moment `json:"until"`
	Overdue bool   `json:"overdue"`
}

type hold struct {
	Reason  string `json:"reason"`
	Owner   string `json:"owner"`
	By      string `json:"by"`
	Message string `json:"message"`
	Since   moment `json:"since"`
}

type label struct {
	Key    string `json:"key"`
	Value  string `json:"value"`
	Source string `json:"source"`
}

type nodeLink struct {
	Gateway      string `json:"gateway"`
	Since        moment `json:"since"`
	EndedAt      moment `json:"endedAt"`
	AgentVersion string `json:"agentVersion"`
}

type inventory struct {
	ReportedAt  moment `json:"reportedAt"`
	Stale       bool   `json:"stale"`
	OS          string `json:"os"`
	Kernel      string `json:"kernel"`
	CPUModel    string `json:"cpuModel"`
	CPUThreads  int    `json:"cpuThreads"`
	MemoryBytes string `json:"memoryBytes"`
	GPUs        []gpu  `json:"gpus"`
	GPUNote     string `json:"gpuNote"`
}

type gpu struct {
	Model string `json:"model"`
}

type drain struct {
	ID              string       `json:"id"`
	State           string       `json:"state"`
	Reason          string       `json:"reason"`
	By              string       `json:"by"`
	StartedAt       moment       `json:"startedAt"`
	EndedAt         moment       `json:"endedAt"`
	EndedBy         string       `json:"endedBy"`
	Cause           string       `json:"cause"`
	Blockers        []allocation `json:"blockers"`
	ExpectedAt      moment       `json:"expectedAt"`
	ConfirmedByNode *bool        `json:"confirmedByNode"`
	// Deadline is by when its author wants it to be over.
	Deadline moment `json:"deadline"`
	Overdue  bool   `json:"overdue"`
}

// The states of a drain.
const (
	draining  = "DRAINING"
	drained   = "DRAINED"
	cancelled = "CANCELLED"
)

type allocation struct {
	ID            string   `json:"id"`
	ReservationID string   `json:"reservationId"`
	TenantID      string   `json:"tenantId"`
	NodeID        string   `json:"nodeId"`
	Future        bool     `json:"future"`
	StartsAt      moment   `json:"startsAt"`
	EndsAt        moment   `json:"endsAt"`
	Devices       []string `json:"devices"`
}

// device is a part of a node that can be booked by itself.
type device struct {
	UUID         string       `json:"uuid"`
	Slot         int          `json:"slot"`
	Model        string       `json:"model"`
	Held         bool         `json:"held"`
	InUse        *bool        `json:"inUse"`
	MissingSince moment       `json:"missingSince"`
	Allocations  []allocation `json:"allocations"`
}

// sentence says what the device is and who holds it, as far as the caller may know.
func (d *device) sentence(now time.Time) string {
	var text strings.Builder
	text.WriteString("slot " + strconv.Itoa(d.Slot) + ", " + orDash(d.Model))
	switch {
	case d.MissingSince != "":
		text.WriteString(", missing since " + d.MissingSince.stamp())
	case d.Held:
		text.WriteString(", held")
	default:
		text.WriteString(", free")
	}
	for i := range d.Allocations {
		text.WriteString("; " + strings.Replace(d.Allocations[i].sentence(now), "  ", " ", 1))
	}
	if d.InUse != nil && *d.InUse {
		text.WriteString(", processes run on it")
	}
	return text.String()
}

type reservation struct {
	ID          string       `json:"id"`
	TenantID    string       `json:"tenantId"`
	State       string       `json:"state"`
	Reason      string       `json:"reason"`
	CreatedBy   string       `json:"createdBy"`
	CreatedAt   moment       `json:"createdAt"`
	ReleasedAt  moment       `json:"releasedAt"`
	ReleasedBy  string       `json:"releasedBy"`
	Allocations []allocation `json:"allocations"`
}

type pool struct {
	ID        string `json:"id"`
	TenantID  string `json:"tenantId"`
	Name      string `json:"name"`
	CreatedAt moment `json:"createdAt"`
}

type tenant struct {
	ID        string `json:"id"`
	CreatedAt moment `json:"createdAt"`
}

// event is any entry of the log; fields that its type doesn't have stay empty.
type event struct {
	ID               string          `json:"id"`
	Cursor           string          `json:"cursor"`
	Type             string          `json:"type"`
	At               moment          `json:"at"`
	NodeID           string          `json:"nodeId"`
	Actor            string          `json:"actor"`
	Reason           string          `json:"reason"`
	RequestID        string          `json:"requestId"`
	DrainID          string          `json:"drainId"`
	CancelledDrainID string          `json:"cancelledDrainId"`
	ConfirmedByNode  *bool           `json:"confirmedByNode"`
	Data             json.RawMessage `json:"data"`

	// own are the fields of its family.
	own json.RawMessage
}

// everyEvents are the fields of every event.
var everyEvents = []string{"id", "cursor", "type", "at", "nodeId", "actor", "reason", "requestId"}

// UnmarshalJSON keeps what only events of its family have: the families are more than a table needs to know.
func (e *event) UnmarshalJSON(b []byte) error {
	type plain event
	if err := json.Unmarshal(b, (*plain)(e)); err != nil {
		return err
	}
	var own map[string]json.RawMessage
	if err := json.Unmarshal(b, &own); err != nil {
		return err
	}
	for name, value := range own {
		if string(value) == "null" || name == "data" || slices.Contains(everyEvents, name) {
			delete(own, name)
		}
	}
	var err error
	if len(own) > 0 {
		e.own, err = json.Marshal(own)
	}
	return err
}

// detail says in words what an event's own fields say.
func (e *event) detail() string {
	switch {
	case e.CancelledDrainID != "":
		return "ended " + e.CancelledDrainID
	case e.ConfirmedByNode != nil && *e.ConfirmedByNode:
		return e.DrainID + ", confirmed by the node"
	case e.ConfirmedByNode != nil:
		return e.DrainID + ", not confirmed by the node"
	case e.DrainID != "":
		return e.DrainID
	}
	if len(e.own) > 0 {
		return facts(e.own)
	}
	return facts(e.Data)
}

// facts writes an event's own fields as name=value, sorted by name.
func facts(data json.RawMessage) string {
	var members map[string]json.RawMessage
	if len(data) == 0 || json.Unmarshal(data, &members) != nil {
		return string(data)
	}
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(members)) {
		var text string
		if json.Unmarshal(members[name], &text) != nil {
			text = string(members[name])
		}
		parts = append(parts, name+"="+text)
	}
	return strings.Join(parts, " ")
}

type nodePayload struct {
	Node    doc[node] `json:"node"`
	Changed bool      `json:"changed"`
	Cursor  string    `json:"cursor"`
	// Warnings are sentences about what was done all the same.
	Warnings []string `json:"warnings"`
}

type reservationPayload struct {
	Reservation doc[reservation] `json:"reservation"`
	Changed     bool             `json:"changed"`
	Cursor      string           `json:"cursor"`
}

// joinToken is what tables read of a JoinToken.
type joinToken struct {
	ID        string `json:"id"`
	Pool      named  `json:"pool"`
	CreatedAt moment `json:"createdAt"`
	CreatedBy string `json:"createdBy"`
	ExpiresAt moment `json:"expiresAt"`
	UsedAt    moment `json:"usedAt"`
	UsedBy    string `json:"usedBy"`
	RevokedAt moment `json:"revokedAt"`
	RevokedBy string `json:"revokedBy"`
}

// state says whether a machine can still use the token.
func (t *joinToken) state(now time.Time) string {
	switch {
	case t.UsedAt != "":
		return "Used"
	case t.RevokedAt != "":
		return "Revoked"
	case !now.Before(t.ExpiresAt.time()):
		return "Ended"
	}
	return "Open"
}

type joinTokenRevoked struct {
	JoinToken doc[joinToken] `json:"joinToken"`
	Changed   bool           `json:"changed"`
}

type tenantPayload struct {
	Tenant  doc[tenant] `json:"tenant"`
	Changed bool        `json:"changed"`
}

type poolPayload struct {
	Pool    doc[pool] `json:"pool"`
	Changed bool      `json:"changed"`
}

type joinTokenPayload struct {
	JoinToken struct {
		ID        string `json:"id"`
		Pool      named  `json:"pool"`
		ExpiresAt moment `json:"expiresAt"`
	} `json:"joinToken"`
	Secret        *string `json:"secret"`
	CAFingerprint string  `json:"caFingerprint"`
	JoinCommand   *string `json:"joinCommand"`
}

// String keeps the secret and the line that holds it out of anything that prints the payload whole.
func (p *joinTokenPayload) String() string { return fmt.Sprintf("join token %s", p.JoinToken.ID) }
