package events

// bookingKinds are those of what tenants book.
func bookingKinds() []Kind {
	reservation := Field{Name: "reservationId", Shape: ShapeID, Always: true, Doc: "The reservation.", Example: exampleReservation}
	allocations := Field{Name: "allocationIds", Shape: ShapeIDs, Always: true, Doc: "Its allocations.", Example: []any{exampleAllocation}}
	interval := []Field{reservation, {Name: "allocationId", Shape: ShapeID, Always: true, Doc: "The allocation.", Example: exampleAllocation}}
	return []Kind{
		{
			Type: "reservation.created", Family: "ReservationEvent", Actor: "The principal that asked.", Readers: ToHolder,
			When: "A tenant books a node.",
			Fields: []Field{
				reservation, allocations,
				{Name: "startsAt", Shape: ShapeDateTime, Always: true, Doc: "When its interval begins.", Example: "2026-11-29T14:30:00Z"},
				{Name: "endsAt", Shape: ShapeDateTime, Doc: "When its interval ends; none when it is open-ended.", Example: "2026-11-30T14:30:00Z"},
				{
					Name: "devices", As: "deviceUuids", Shape: ShapeStrings, Example: []any{"GPU-8c2d1d2e-6f0a-4f57-9d1b-0e9a3b7c5d11"},
					Doc: "The hardware ids of the devices that it holds; none when it is a share of the node.",
				},
			},
		},
		{
			Type: "reservation.released", Family: "ReservationEvent", Actor: "The principal that asked.", Readers: ToHolder,
			When: "A tenant gives a booking back: one event for each node that it held.", Fields: []Field{reservation, allocations},
		},
		{
			Type: "allocation.started", Family: "AllocationEvent", Actor: "interval-timer.", Readers: ToHolder,
			When: "A booking's interval begins that lay ahead when it was made.", Fields: interval,
		},
		{
			Type: "allocation.ended", Family: "AllocationEvent", Actor: "interval-timer.", Readers: ToHolder,
			When: "A booking's interval ends before it was released.", Fields: interval,
		},
	}
}

// adminKinds are those of what administrators make.
func adminKinds() []Kind {
	token := []Field{
		{Name: "joinTokenId", Shape: ShapeID, Always: true, Doc: "The join token.", Example: exampleToken},
		{Name: "poolId", Shape: ShapeID, Always: true, Doc: "The pool that its machines come into.", Example: examplePool},
		{Name: "expiresAt", Shape: ShapeDateTime, Always: true, Doc: "When it ends.", Example: "2026-11-29T15:00:00Z"},
		{Name: "labels", Shape: ShapeLabels, Doc: "The labels that its machines get.", Example: map[string]any{"rack": "b7"}},
	}
	return []Kind{
		{
			Type: "tenant.created", Family: "TenantEvent", Actor: "The principal that asked.", Readers: ToOwner, When: "A tenant is made.",
			Fields: []Field{{Name: "tenantId", Shape: ShapeID, Always: true, Doc: "The tenant.", Example: "acme"}},
		},
		{
			Type: "pool.created", Family: "PoolEvent", Actor: "The principal that asked.", Readers: ToOwner, When: "A pool is made.",
			Fields: []Field{
				{Name: "poolId", Shape: ShapeID, Always: true, Doc: "The pool.", Example: examplePool},
				{Name: "name", Shape: ShapeString, Always: true, Doc: "Its name.", Example: "h100-west"},
			},
		},
		{Type: "join-token.created", Family: "JoinTokenEvent", Actor: "The principal that asked.", Readers: ToOwner, When: "A join token is made.", Fields: token},
		{
			Type: "join-token.revoked", Family: "JoinTokenEvent", Actor: "The principal that asked.", Readers: ToOwner,
			When: "A join token is revoked before it was used or ended.", Fields: token,
		},
	}
}

// securityKinds are those about trust.
func securityKinds() []Kind {
	serial := Field{Name: "serial", Shape: ShapeString, Always: true, Doc: "The certificate's serial number.", Example: exampleSerial}
	generation := Field{Name: "generation", Shape: ShapeInt, Always: true, Doc: "The identity's generation that the certificate is of.", Example: 1}
	return []Kind{
		{
			Type: "security.node.superseded-certificate-used", Family: "CertificateSecurityEvent", Actor: "The node.", Readers: ToSecurity,
			When: "Somebody shows a certificate that a newer one took the place of; once an hour for each.", Fields: []Field{serial, generation},
		},
		{
			Type: "security.node.identity-mismatch", Family: "CertificateSecurityEvent", Actor: "The node.", Readers: ToSecurity,
			When: "A machine that holds a node's certificate calls itself another node; once an hour for each certificate.",
			Fields: []Field{
				serial, generation,
				{Name: "claimed", As: "claimedNodeId", Shape: ShapeString, Doc: "The node that it says it is; empty when that is no node's id.", Example: exampleNode},
			},
		},
		{
			Type: "security.join-token.reused", Family: "JoinTokenSecurityEvent", Actor: "join.", Readers: ToSecurity,
			When: "A join token is shown that another machine has used; once a minute for each. The event is about the node that used it.",
			Fields: []Field{
				{Name: "joinTokenId", Shape: ShapeID, Always: true, Doc: "The join token.", Example: exampleToken},
				{Name: "usedBy", Shape: ShapeID, Always: true, Doc: "The node that used it.", Example: exampleNode},
				{Name: "firstKey", As: "firstIdentityKey", Shape: ShapeString, Always: true, Doc: "The identity that used it.", Example: exampleIdentity},
				{Name: "firstPrint", Shape: ShapePrint, Doc: "The machine that used it.", Example: examplePrint(exampleBoot)},
				{Name: "key", As: "identityKey", Shape: ShapeString, Always: true, Doc: "The identity that shows it now.", Example: exampleIdentity},
				{Name: "print", Shape: ShapePrint, Doc: "The machine that shows it now.", Example: examplePrint(exampleBoot)},
				{Name: "hostname", Shape: ShapeString, Doc: "The name that the machine gives itself.", Example: "gpu-b7-05"},
			},
		},
		{
			Type: "security.join-token.refused", Family: "JoinTokenSecurityEvent", Actor: "join.", Readers: ToSecurity,
			When: "A join token is shown that does not count, or not for this machine; once an hour for each and cause. The event is about the node that the machine " +
				"has proved to be, else about the one that the token is for, if there is one. Whoever knows a token's id can make one with WRONG_SECRET; a token " +
				"that nobody made has no owner and makes none, and one that is used up makes security.join-token.reused.",
			Fields: []Field{
				{Name: "joinTokenId", Shape: ShapeID, Always: true, Doc: "The join token.", Example: exampleToken},
				{Name: "cause", As: "refusal", Shape: ShapeTokenRefusal, Always: true, Doc: "Why it was refused; the machine was not told.", Example: "EXPIRED"},
				{Name: "poolId", Shape: ShapeID, Always: true, Doc: "The pool that the token is for.", Example: examplePool},
				{Name: "boundTo", As: "boundToNodeId", Shape: ShapeID, Doc: "The one node that the token is for; none when it is for any machine.", Example: exampleNode},
				{Name: "key", As: "identityKey", Shape: ShapeString, Always: true, Doc: "The identity that shows it now.", Example: exampleIdentity},
				{Name: "print", Shape: ShapePrint, Doc: "The machine that shows it now.", Example: examplePrint(exampleBoot)},
				{Name: "hostname", Shape: ShapeString, Doc: "The name that the machine gives itself.", Example: "gpu-b7-05"},
			},
		},
	}
}
