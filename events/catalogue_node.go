package events

// Families gives the API's event types in the order in which the schema has them.
func Families() []Family {
	return []Family{
		{"NodeCordonEvent", "What moved a node's cordon: it keeps new work off the node, and nothing else of it changes."},
		{"NodeDraining", "A drain began, or runs past its deadline: the node is cordoned and its live allocations are waited for."},
		{"NodeDrained", "A drain ended: the node held no live allocation. It stays cordoned."},
		{"NodeTaintEvent", "What moved a node's taints: the NoSchedule reasons that operators own."},
		{"NodeLabelEvent", "What moved a node's labels."},
		{"NodeDeleted", "A node was deleted. Whoever saw it reads this last event of it."},
		{"NodeJoinEvent", "A machine joined by a token, as a new node or as one that is known."},
		{"NodeAdoptionEvent", "What became of a node's acceptance checks."},
		{"NodeInventoryEvent", "A node's daemon measured something new."},
		{"NodeConditionEvent", "A condition of a node came or went."},
		{"NodeSessionEvent", "What became of a node's session with the control plane. It says nothing of the node's work."},
		{"ReservationEvent", "A reservation was made or released."},
		{"AllocationEvent", "An allocation's interval began or ended."},
		{"TenantEvent", "A tenant was made."},
		{"PoolEvent", "A pool was made."},
		{"JoinTokenEvent", "A join token was made or revoked. Its secret is in no event."},
		{"CertificateSecurityEvent", "A node's certificate was used in a way that nobody should."},
		{"JoinTokenSecurityEvent", "A join token was shown that does not count, or that another machine has used."},
	}
}

// Examples of ids.
const (
	exampleDrain       = "drn_01k5wjb4s8fpvb0q9f6m3h2c7d"
	exampleSession     = "ses_01k5wjb4s8fpvb0q9f6m3h2c7d"
	exampleToken       = "jt_01k5wjb4s8fpvb0q9f6m3h2c7d" //nolint:gosec // an id, not a secret
	exampleNode        = "node_01k5wjb4s8fpvb0q9f6m3h2c7d"
	exampleGateway     = "gw_01k5wjb4s8fpvb0q9f6m3h2c7d"
	exampleBoot        = "6a1f3c52-0f0e-4d0b-9a55-3a1f0f6c2b11"
	exampleSerial      = "5b3c9f0d2e7a41c8"
	exampleIdentity    = "2f6e0c1b9d8a7f5e4c3b2a190817161514131211100f0e0d0c0b0a0908070605"
	examplePool        = "pool_01k5wjb4s8fpvb0q9f6m3h2c7d"
	exampleReservation = "res_01k5wjb4s8fpvb0q9f6m3h2c7d"
	exampleAllocation  = "alloc_01k5wjb4s8fpvb0q9f6m3h2c7d"
)

func examplePrint(boot string) map[string]any {
	return map[string]any{"machineId": "8c5d7e1f2a3b4c5d6e7f8091a2b3c4d5", "productUuid": "4c4c4544-0042-3510-8056-b7c04f4e4d32", "ekHash": "", "bootId": boot}
}

func nodeKinds() []Kind {
	operator := "The principal that asked."
	run := Field{Name: "runId", Shape: ShapeID, Doc: "The run of acceptance; none for a machine's first.", Example: "adp_01k5wjb4s8fpvb0q9f6m3h2c7d"}
	until := Field{Name: "until", Shape: ShapeDateTime, Doc: "When its author means it to end.", Example: "2026-11-30T06:00:00Z"}
	deadline := Field{Name: "deadline", Shape: ShapeDateTime, Doc: "By when its author wants it to be over.", Example: "2026-11-30T06:00:00Z"}
	return []Kind{
		{
			Type: "node.cordoned", Family: "NodeCordonEvent", Actor: operator, Readers: ToNodeTenants,
			When:   "An operator cordons a node that was not cordoned. A drain that cordons publishes node.draining only.",
			Fields: []Field{until},
		},
		{
			Type: "node.cordon-updated", Family: "NodeCordonEvent", Actor: operator, Readers: ToNodeTenants,
			When:   "An operator gives a cordon that holds another reason or end. Who holds it stays.",
			Fields: []Field{until},
		},
		{
			Type: "node.cordon-overdue", Family: "NodeCordonEvent", Actor: "overseer.", Readers: ToNodeTenants,
			When:   "A cordon holds past the end that its author gave; once a day while it does. Its reason is the cordon's.",
			Fields: []Field{until},
		},
		{
			Type: "node.uncordoned", Family: "NodeCordonEvent", Actor: operator, Readers: ToNodeTenants,
			When: "An operator takes the cordon away; a drain that ran has ended with it.",
			Fields: []Field{{
				Name: "cancelledDrainId", Shape: ShapeID, Doc: "The drain that ended before the node was empty.", Example: exampleDrain,
			}},
		},
		{
			Type: "node.draining", Family: "NodeDraining", Actor: operator, Readers: ToNodeTenants,
			When: "An operator drains a node that is not draining.",
			Fields: []Field{
				{Name: "drainId", Shape: ShapeID, Always: true, Promised: true, Reduced: true, Doc: "The drain.", Example: exampleDrain}, deadline,
			},
		},
		{
			Type: "node.drain-overdue", Family: "NodeDraining", Actor: "overseer.", Readers: ToNodeTenants,
			When: "A drain runs past its deadline; once. It goes on. Its reason is the drain's.",
			Fields: []Field{
				{Name: "drainId", Shape: ShapeID, Always: true, Promised: true, Reduced: true, Doc: "The drain.", Example: exampleDrain}, deadline,
			},
		},
		{
			Type: "node.drained", Family: "NodeDrained", Actor: "drain-controller.", Readers: ToNodeTenants,
			When: "The drain controller finds no live allocation on a draining node. Its reason is the drain's.",
			Fields: []Field{
				{Name: "drainId", Shape: ShapeID, Always: true, Promised: true, Reduced: true, Doc: "The drain.", Example: exampleDrain},
				{
					Name: "confirmedByNode", Shape: ShapeBoolean, Always: true, Promised: true, Reduced: true, Example: true,
					Doc: "Whether the node itself reported, in its present session and lately, that nothing runs.",
				},
			},
		},
		{
			Type: "node.tainted", Family: "NodeTaintEvent", Actor: operator, Readers: ToNodeTenants,
			When: "An operator adds or removes taints. A tenant that the node is dedicated to by it reads it too.",
			Fields: []Field{
				{Name: "taintsAdded", Shape: ShapeStrings, Doc: "The keys that came.", Example: []any{"rma-pending"}},
				{Name: "taintsRemoved", Shape: ShapeStrings, Doc: "The keys that went.", Example: []any{"burn-in"}},
			},
		},
		{
			Type: "node.labeled", Family: "NodeLabelEvent", Readers: ToNodeTenants,
			Actor: "The principal that asked; the node, for what its inventory took over.",
			When:  "An operator sets or removes labels, or an inventory takes the key of an operator's.",
			Fields: []Field{
				{Name: "set", As: "labelsSet", Shape: ShapeLabels, Doc: "The labels that came or have another value.", Example: map[string]any{"gpu.model": "H100"}},
				{Name: "removed", As: "labelsRemoved", Shape: ShapeLabels, Doc: "The operator's labels that were removed.", Example: map[string]any{"burn-in": "1"}},
				{
					Name: "displaced", As: "labelsDisplaced", Shape: ShapeLabels, Example: map[string]any{"gpu.model": "mine"},
					Doc: "The operator's labels that went since inventory or the system owns their key.",
				},
			},
		},
		{
			Type: "node.deleted", Family: "NodeDeleted", Actor: operator, Readers: ToNodeTenants,
			When: "An operator deletes a node. A drain that ran has ended with it; the machine can join again as a new node.",
		},
		{
			Type: "node.joined", Family: "NodeJoinEvent", Actor: "The node.", Readers: ToOwner,
			When: "A machine that is not known joins: the node is made.", Fields: joinFields(),
		},
		{
			Type: "node.rejoined", Family: "NodeJoinEvent", Actor: "The node.", Readers: ToNodeTenants,
			When: "A machine that proves a known identity joins: the node is the same, its certificates from before are revoked.", Fields: joinFields(),
		},
		{
			Type: "node.inventory", Family: "NodeInventoryEvent", Actor: "The node.", Readers: ToNodeTenants,
			When: "A node reports an inventory that differs from the one before.",
			Fields: []Field{
				{Name: "gpus", As: "gpuCount", Shape: ShapeInt, Always: true, Doc: "How many GPUs it shows.", Example: 8},
				{Name: "cpuThreads", Shape: ShapeInt, Doc: "How many threads its processors run.", Example: 192},
				{Name: "memoryBytes", Shape: ShapeInt, Doc: "How much memory it has.", Example: 2164663517184},
				{Name: "labels", As: "labelCount", Shape: ShapeInt, Always: true, Doc: "How many labels come of it.", Example: 14},
			},
		},
		{
			Type: "node.condition", Family: "NodeConditionEvent", Actor: "health.", Readers: ToNodeTenants,
			When: "A condition comes, goes or says something else.",
			Fields: []Field{
				{Name: "condition", Shape: ShapeString, Always: true, Doc: "Its name; the reason that keeps new work off is condition:<name>.", Example: "clock-skew"},
				{Name: "active", Shape: ShapeBoolean, Always: true, Doc: "Whether it came; false when it went.", Example: true},
				{Name: "message", Shape: ShapeString, Doc: "What is wrong, and what to do.", Example: "the machine's clock is 12 min behind; set it, and restart bcd"},
			},
		},
		{
			Type: "node.adopting", Family: "NodeAdoptionEvent", Actor: operator, Readers: ToNodeTenants,
			When:   "An operator has acceptance run again. The node leaves placement until its checks pass; what it holds stays.",
			Fields: []Field{run},
		},
		{
			Type: "node.adopted", Family: "NodeAdoptionEvent", Actor: "health.", Readers: ToNodeTenants,
			When: "The acceptance checks of a node that waited for them passed.",
			Fields: []Field{
				{Name: "checks", Shape: ShapeStrings, Doc: "The checks that passed.", Example: []any{"session", "inventory", "clock", "devices"}}, run,
			},
		},
		{
			Type: "node.adoption-failed", Family: "NodeAdoptionEvent", Actor: "health.", Readers: ToNodeTenants,
			When: "A check of acceptance can't pass: the node is FAILED.",
			Fields: []Field{
				run,
				{Name: "phase", Shape: ShapeString, Always: true, Doc: "ENROLLMENT before the node was ever adopted, else ACCEPTANCE.", Example: "ACCEPTANCE"},
				{Name: "check", Shape: ShapeString, Always: true, Doc: "The check.", Example: "devices"},
				{Name: "message", Shape: ShapeString, Always: true, Doc: "What is wrong, and what to do.", Example: "devices that are booked are not there: GPU-1"},
			},
		},
	}
}

func joinFields() []Field {
	return []Field{
		{Name: "key", As: "identityKey", Shape: ShapeString, Always: true, Doc: "The fingerprint of the machine's identity.", Example: exampleIdentity},
		{Name: "generation", Shape: ShapeInt, Always: true, Doc: "The identity's generation that the certificate is of.", Example: 1},
		{Name: "serial", Shape: ShapeString, Always: true, Doc: "The certificate's serial number.", Example: exampleSerial},
		{Name: "joinTokenId", Shape: ShapeID, Always: true, Doc: "The join token.", Example: exampleToken},
		{Name: "hostname", Shape: ShapeString, Always: true, Doc: "The name that the machine gives itself.", Example: "gpu-b7-04"},
		{Name: "print", Shape: ShapePrint, Always: true, Doc: "What tells this machine from others.", Example: examplePrint(exampleBoot)},
		{
			Name: "previousPrint", Shape: ShapePrint, Doc: "What told the machine that held the identity before.",
			Example: examplePrint("0b7f7d6c-51a9-4f0c-8a6e-7f7c4b0f2a90"),
		},
		{Name: "revokedSerials", Shape: ShapeStrings, Doc: "The certificates from before that are revoked now.", Example: []any{"3d0a77b1c5e94f02"}},
	}
}

func sessionKinds() []Kind {
	session := Field{Name: "sessionId", Shape: ShapeID, Always: true, Doc: "The session.", Example: exampleSession}
	gateway := Field{Name: "gateway", Shape: ShapeString, Always: true, Doc: "The gateway that holds it.", Example: exampleGateway}
	return []Kind{
		{
			Type: "node.connected", Family: "NodeSessionEvent", Actor: "gateway.", Readers: ToNodeTenants,
			When: "A node's daemon opens a session.",
			Fields: []Field{
				session, gateway,
				{Name: "bootId", Shape: ShapeString, Doc: "The machine's boot, as its kernel names it.", Example: exampleBoot},
				{Name: "agentVersion", Shape: ShapeString, Doc: "The daemon's version.", Example: "0.1.0"},
				{Name: "clockSkewMs", Shape: ShapeInt, Doc: "The machine's clock minus the control plane's, in milliseconds.", Example: -12},
			},
		},
		{
			Type: "node.disconnected", Family: "NodeSessionEvent", Actor: "gateway.", Readers: ToNodeTenants,
			When: "A node's session ends. Allocations, cordon and all else stay as they are.",
			Fields: []Field{
				session,
				{Name: "reason", As: "cause", Shape: ShapeString, Always: true, Doc: "Why it ended.", Example: "connection lost"},
			},
		},
		{
			Type: "node.unreachable", Family: "NodeSessionEvent", Actor: "liveness.", Readers: ToNodeTenants,
			When: "A node was not heard of for 40 seconds: new work is kept off it, and what it holds stays as it is.",
			Fields: []Field{
				{Name: "lastSeen", Shape: ShapeDateTime, Always: true, Doc: "When it was last heard of.", Example: "2026-11-29T14:29:20Z"},
				{Name: "gateway", Shape: ShapeString, Doc: "The gateway that held its newest session; none when it never had one.", Example: exampleGateway},
				{Name: "was", Shape: ShapeConnectivity, Always: true, Doc: "What its connectivity was until now.", Example: "CONNECTED"},
			},
		},
		{
			Type: "node.reconnected", Family: "NodeSessionEvent", Actor: "gateway.", Readers: ToNodeTenants,
			When: "A node that was given up is heard of again; its reason unreachable is gone.",
			Fields: []Field{
				{Name: "sessionId", Shape: ShapeID, Doc: "The session, where it opened one.", Example: exampleSession},
				{Name: "gateway", Shape: ShapeString, Doc: "The gateway that holds it.", Example: exampleGateway},
				{Name: "was", Shape: ShapeConnectivity, Always: true, Doc: "What its connectivity had come to.", Example: "UNREACHABLE"},
			},
		},
	}
}
