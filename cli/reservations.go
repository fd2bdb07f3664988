package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/better-compute/better-compute/fault"
	"github.com/better-compute/better-compute/id"
)

func (a *app) reservations() *cobra.Command {
	return noun("reservations", "Bookings of nodes", a.reservationsCreate(), a.reservationsList(), a.reservationsRelease())
}

// parseSpan reads a length of time above zero: what Go writes, and whole days like 7d.
func parseSpan(text string) (time.Duration, error) {
	const day = 24 * time.Hour
	if number, ok := strings.CutSuffix(text, "d"); ok {
		days, err := strconv.Atoi(number)
		if err != nil || days < 1 || days > int(math.MaxInt64/day) {
			return 0, errors.New("no length of time")
		}
		return time.Duration(days) * day, nil
	}
	length, err := time.ParseDuration(text)
	if err != nil || length <= 0 {
		return 0, errors.New("no length of time")
	}
	return length, nil
}

// longest bounds a booking, as the server does.
const longest = 3650 * 24 * time.Hour

func seconds(flag, text string) (int, error) {
	length, err := parseSpan(text)
	switch {
	case err != nil || length%time.Second != 0:
		return 0, Usage("%s %q must be a length of time in whole seconds, like 2h or 7d", flag, text)
	case length > longest:
		return 0, Usage("%s %q must be at most ten years; leave it out for an open end", flag, text)
	}
	return int(length / time.Second), nil
}

func parseMoment(flag, text string) (string, error) {
	at, err := time.Parse(time.RFC3339Nano, text)
	if err != nil {
		return "", Usage("%s %q must be a moment with its time zone, like 2026-11-29T14:00:00Z or 2026-11-29T15:00:00+01:00", flag, text)
	}
	if !at.After(time.Unix(0, 0)) || at.Year() > 9999 {
		return "", Usage("%s %q must be a moment of this age, like 2026-11-29T14:00:00Z", flag, text)
	}
	return at.UTC().Format(time.RFC3339Nano), nil
}

func (a *app) reservationsCreate() *cobra.Command {
	var (
		nodeID, length, until, starts, reason string
		devices                               []string
	)
	cmd := &cobra.Command{
		Use:   "create --node NODE",
		Short: "Book devices of a node, or a share of it",
		Long: "Books devices of a node, which nobody else can hold in that time. Without --devices it books a share of the node, which excludes nobody.\n" +
			"A device is named by its hardware id or by its slot; \"nodes get\" lists both.",
		Example: "  better-compute reservations create --node node_01k5wjb4s8fpvb0q9f6m3h2c7d --for 2h --reason training\n" +
			"  better-compute reservations create --node node_01k5wjb4s8fpvb0q9f6m3h2c7d --devices 0,1 --for 7d\n" +
			"  better-compute reservations create --node node_01k5wjb4s8fpvb0q9f6m3h2c7d --until 2026-11-30T06:00:00Z",
		Args: NoArgs,
		RunE: a.run(func(cmd *cobra.Command, _ []string) error {
			if nodeID == "" {
				return Usage("which node? give --node")
			}
			if err := checkID(id.Node, "node", nodeID); err != nil {
				return err
			}
			if cmd.Flags().Changed("devices") && len(devices) == 0 {
				return Usage("--devices must name at least one device; leave it out for a share of the node")
			}
			input := map[string]any{"nodeId": nodeID, "requestId": requestID()}
			if length != "" && until != "" {
				return Usage("--for and --until say the same: give one of them")
			}
			if length != "" {
				n, err := seconds("--for", length)
				if err != nil {
					return err
				}
				input["durationSeconds"] = n
			}
			for _, at := range []struct{ flag, text, field string }{{"--until", until, "endsAt"}, {"--starts", starts, "startsAt"}} {
				if at.text == "" {
					continue
				}
				text, err := parseMoment(at.flag, at.text)
				if err != nil {
					return err
				}
				input[at.field] = text
			}
			if reason != "" {
				input["reason"] = reason
			}
			if len(devices) > 0 {
				named, err := a.named(cmd.Context(), nodeID, devices)
				if err != nil {
					return err
				}
				input["devices"] = named
			}
			c, p, err := a.book(cmd.Context(), opReservationCreate, "reservationCreate", input)
			if err != nil {
				return err
			}
			r := &p.Reservation.v
			if p.Changed {
				a.say("%s booked on %s, %s", r.ID, nodeID, r.interval(c.now()))
			} else {
				a.say("unchanged: %s is booked already", r.ID)
			}
			return a.printReservation(cmd.Context(), c, p)
		}),
	}
	set := cmd.Flags()
	set.StringVar(&nodeID, "node", "", "the `node` to book")
	set.StringSliceVar(&devices, "devices", nil, "the `devices` to hold, by hardware id or slot, like 0,1; absent: a share of the node, which excludes nobody")
	set.StringVar(&length, "for", "", "how `long`, like 2h or 7d; without --for and --until it is open-ended")
	set.StringVar(&until, "until", "", "when it ends, a `moment` like 2026-11-30T06:00:00Z")
	set.StringVar(&starts, "starts", "", "when it begins, a `moment`; absent: now")
	set.StringVar(&reason, "reason", "", "`why`, up to 256 characters; it stands in the event")
	_ = cmd.RegisterFlagCompletionFunc("node", a.completeNodes)
	return cmd
}

// named gives the hardware ids of devices that are named by their slots or by themselves.
func (a *app) named(ctx context.Context, nodeID string, devices []string) ([]string, error) {
	slot := func(name string) (int, bool) {
		n, err := strconv.Atoi(name)
		return n, err == nil && n >= 0
	}
	if !slices.ContainsFunc(devices, func(name string) bool { _, ok := slot(name); return ok }) {
		return devices, nil
	}
	c, tenant, err := a.asTenant(ctx)
	if err != nil {
		return nil, err
	}
	var answer struct {
		Node *struct {
			Devices []device `json:"devices"`
		} `json:"node"`
	}
	if err := c.do(ctx, opNodeDevices, map[string]any{"tenantId": tenant, "nodeId": nodeID}, &answer); err != nil {
		return nil, err
	}
	if answer.Node == nil {
		return nil, &Error{Code: string(fault.NotFound), Message: nodeID + " is not there, or not visible to " + tenant}
	}
	named := make([]string, len(devices))
	for i, name := range devices {
		named[i] = name
		n, ok := slot(name)
		if !ok {
			continue
		}
		at := slices.IndexFunc(answer.Node.Devices, func(d device) bool { return d.Slot == n && d.MissingSince == "" })
		if at < 0 {
			return nil, &Error{Code: string(fault.NotFound), Message: nodeID + " has no device in slot " + name, Hint: "nodes get " + nodeID + " lists what it has"}
		}
		named[i] = answer.Node.Devices[at].UUID
	}
	return named, nil
}

func (a *app) book(ctx context.Context, op operation, field string, input map[string]any) (*client, *reservationPayload, error) {
	c, tenant, err := a.asTenant(ctx)
	if err != nil {
		return nil, nil, err
	}
	input["tenantId"] = tenant
	var answer map[string]*reservationPayload
	if err := c.do(ctx, op, map[string]any{"input": input}, &answer); err != nil {
		return nil, nil, err
	}
	if answer[field] == nil {
		return nil, nil, unavailable(nil, "the server's answer is empty")
	}
	return c, answer[field], nil
}

func (a *app) printReservation(ctx context.Context, c *client, p *reservationPayload) error {
	return a.printOne(ctx, p.Reservation.raw, p.Reservation.v.ID, "", func(w io.Writer, wide bool) error {
		t := &table{paint: a.paint()}
		reservationRows(t, []doc[reservation]{p.Reservation}, c.now(), wide)
		return t.write(w)
	})
}

func (r *reservation) interval(now time.Time) string {
	if len(r.Allocations) == 0 {
		return "holds nothing"
	}
	one := r.Allocations[0]
	text := one.EndsAt.until(now)
	if one.EndsAt != "" {
		text = "until " + text
	}
	if one.Future {
		text = "from " + one.StartsAt.stamp() + ", " + text
	}
	if len(one.Devices) > 0 {
		text = one.what() + ", " + text
	}
	return text
}

// what says in a few words what is held.
func (b *allocation) what() string {
	switch len(b.Devices) {
	case 0:
		return "a share"
	case 1:
		return "1 device"
	}
	return strconv.Itoa(len(b.Devices)) + " devices"
}

func reservationRows(t *table, list []doc[reservation], now time.Time, wide bool) {
	head := []string{"ID", "STATE", "NODE", "HOLDS", "STARTS", "ENDS", "REASON"}
	if wide {
		head = append(head, "DEVICES", "BY", "CREATED", "RELEASED", "RELEASED BY")
	}
	t.header(head...)
	for i := range list {
		r := &list[i].v
		nodes, holds, starts, ends := "-", "-", "-", "-"
		var devices []string
		for n := range r.Allocations {
			held := &r.Allocations[n]
			devices = append(devices, held.Devices...)
			if n == 0 {
				nodes, holds, starts, ends = held.NodeID, held.what(), held.StartsAt.stamp(), held.EndsAt.until(now)
			} else {
				nodes, holds = nodes+","+held.NodeID, holds+","+held.what()
			}
		}
		row := []string{r.ID, words(r.State), nodes, holds, starts, ends, orDash(r.Reason)}
		if wide {
			row = append(row, orDash(strings.Join(devices, ",")), r.CreatedBy, r.CreatedAt.stamp(), orDash(r.ReleasedAt.stamp()), orDash(r.ReleasedBy))
		}
		t.row(row...)
	}
}

func (a *app) reservationsList() *cobra.Command {
	var (
		nodeID, after string
		active        bool
		limit         int
	)
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List the tenant's reservations, newest first",
		Args:  NoArgs,
		RunE: a.run(func(cmd *cobra.Command, _ []string) error {
			filter := map[string]any{}
			if err := checkLimit(limit); err != nil {
				return err
			}
			if nodeID != "" {
				if err := checkID(id.Node, "node", nodeID); err != nil {
					return err
				}
				filter["nodeId"] = nodeID
			}
			if cmd.Flags().Changed("active") {
				filter["active"] = active
			}
			ctx := cmd.Context()
			c, tenant, err := a.asTenant(ctx)
			if err != nil {
				return err
			}
			variables := map[string]any{"tenantId": tenant, "filter": filter}
			all, err := pages[reservation](ctx, c, opReservations, variables, "reservations", after, limit)
			if err != nil {
				return err
			}
			return a.printList(ctx, listing{
				key: "reservations", items: raws(all.Nodes), names: names(all.Nodes, func(r *reservation) string { return r.ID }),
				more: []member{{"pageInfo", all.PageInfo.raw}},
				none: "no reservations",
				rows: func(t *table, wide bool) { reservationRows(t, all.Nodes, c.now(), wide) },
			})
		}),
	}
	cmd.Flags().StringVar(&nodeID, "node", "", "only those with an allocation on this `node`")
	cmd.Flags().BoolVar(&active, "active", false, "only active ones; --active=false: only others")
	_ = cmd.RegisterFlagCompletionFunc("node", a.completeNodes)
	pageFlags(cmd, &limit, &after)
	return cmd
}

func (a *app) reservationsRelease() *cobra.Command {
	var reason string
	cmd := &cobra.Command{
		Use:     "release ID",
		Short:   "Release a reservation with all that it holds",
		Long:    "Releases a reservation with all that it holds. Releasing a released one changes nothing.",
		Example: "  better-compute reservations release res_01k5wjb4s8fpvb0q9f6m3h2c7d --reason 'done early'",
		Args:    oneID(id.Reservation, "reservation"),
		RunE: a.run(func(cmd *cobra.Command, args []string) error {
			input := map[string]any{"reservationId": args[0], "requestId": requestID()}
			if reason != "" {
				input["reason"] = reason
			}
			c, p, err := a.book(cmd.Context(), opReservationRelease, "reservationRelease", input)
			if err != nil {
				return err
			}
			r := &p.Reservation.v
			if p.Changed {
				a.say("%s released", r.ID)
			} else {
				a.say("unchanged: %s", alreadyOver(r))
			}
			return a.printReservation(cmd.Context(), c, p)
		}),
	}
	cmd.Flags().StringVar(&reason, "reason", "", "`why`, up to 256 characters; it stands in the event")
	return cmd
}

func alreadyOver(r *reservation) string {
	if r.ReleasedAt == "" {
		return fmt.Sprintf("its interval has ended (%s)", words(r.State))
	}
	return "already released by " + orDash(r.ReleasedBy) + " since " + r.ReleasedAt.stamp()
}
