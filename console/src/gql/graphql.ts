/* eslint-disable */
/** Internal type. DO NOT USE DIRECTLY. */
type Exact<T extends { [key: string]: unknown }> = { [K in keyof T]: T[K] };
/** Internal type. DO NOT USE DIRECTLY. */
export type Incremental<T> = T | { [P in keyof T]?: P extends ' $fragmentName' | '__typename' ? T[P] : never };
import type { DocumentTypeDecoration } from '@graphql-typed-document-node/core';
/** Whether a node's certificate counts. */
export type CertificateState =
  /** The one with which the node speaks. */
  | 'ACTIVE'
  /** Signed, and not used yet: its first use makes it the active one. */
  | 'PENDING'
  /** Refused for ever. */
  | 'REVOKED'
  /** A newer one took its place. */
  | 'SUPERSEDED';

/** Where an acceptance check stands. */
export type CheckStatus =
  /** The node can't show it: it is not adopted. */
  | 'FAILED'
  /** The node has shown it. */
  | 'PASSED'
  /** What it looks at is not there yet. */
  | 'PENDING'
  /** It would disturb what runs, and waits until the node holds no live allocation. */
  | 'WAITING';

/** Whether a node's daemon holds a session. It says nothing about health or about the workloads that run. */
export type Connectivity =
  /** It holds a live session. */
  | 'CONNECTED'
  /** Its session ended; within the grace nothing else follows from that. */
  | 'DISCONNECTED'
  /** Given up by policy or by an operator. */
  | 'LOST'
  /** It has joined and never had a session. */
  | 'PENDING'
  /** It was not heard of for longer than the lease and the grace: kept out of new placement, and nothing else. */
  | 'UNREACHABLE';

/** What a device is. */
export type DeviceKind =
  /** An accelerator. */
  | 'GPU';

/** Where a drain stands. */
export type DrainState =
  /** It was ended before the node was empty. */
  | 'CANCELLED'
  /** The node held no live allocation; it stays cordoned. */
  | 'DRAINED'
  /** It waits for the node's live allocations to end. */
  | 'DRAINING';

/** Why a join token was refused. The machine that showed it is told none of it. */
export type JoinTokenRefusal =
  /** It came too late. */
  | 'EXPIRED'
  /** The token is for one node, and the machine is not that one. */
  | 'OTHER_NODE'
  /** The machine is a node of another pool than the token's. */
  | 'OTHER_POOL'
  /** It was made before the certificate of the machine's node was revoked: it may be in the hands of whoever that was meant for. */
  | 'OUTDATED'
  /** An operator has revoked it. */
  | 'REVOKED'
  /** Somebody knows the token's id and not its secret. */
  | 'WRONG_SECRET';

/** A label to set. */
export type LabelInput = {
  /** Up to 128 letters, digits and . _ / -, beginning and ending with a letter or digit. */
  key: string;
  /** Up to 256 letters, digits and . _ : / @ + = -; can be empty. */
  value: string;
};

/** A condition on a label. */
export type LabelMatch = {
  /** The label's key. */
  key: string;
  /** One of these values; absent: the key exists. */
  values?: Array<string> | null | undefined;
};

/** Who a label belongs to. */
export type LabelSource =
  /** Measured by the node's daemon. */
  | 'INVENTORY'
  /** Set by an operator. */
  | 'OPERATOR'
  /** Set by the control plane. */
  | 'SYSTEM';

/** Which node to adopt again, and why. */
export type NodeAdoptInput = {
  /** The node. */
  nodeId: string | number;
  /** Free text, up to 256 characters, kept in the event. */
  reason?: string | null | undefined;
  /** Up to 128 characters, chosen by you: a repeat within 24 hours does nothing and gives the first answer. */
  requestId?: string | number | null | undefined;
  /** The tenant that acts: it must own the node. */
  tenantId: string | number;
  /** The version that you read; CONFLICT when the node changed since. */
  version?: number | null | undefined;
};

/** Which node to cordon, and why. */
export type NodeCordonInput = {
  /** The node. */
  nodeId: string | number;
  /** Free text, up to 256 characters, kept in the event. */
  reason?: string | null | undefined;
  /** Up to 128 characters, chosen by you: a repeat within 24 hours does nothing and gives the first answer. */
  requestId?: string | number | null | undefined;
  /** The tenant that acts: it must own the node. */
  tenantId: string | number;
  /** When you mean it to end. Nothing is lifted by itself: past it the cordon is overdue. */
  until?: string | null | undefined;
  /** Give the cordon that holds, whoever's it is, this reason and this end; who holds it stays. INVALID_STATE where there is none. */
  updateReason?: boolean;
  /** The version that you read; CONFLICT when the node changed since. */
  version?: number | null | undefined;
};

/** Which node to delete, and why. */
export type NodeDeleteInput = {
  /** The node. */
  nodeId: string | number;
  /** Free text, up to 256 characters, kept in the event. */
  reason?: string | null | undefined;
  /** Up to 128 characters, chosen by you: a repeat within 24 hours does nothing and gives the first answer. */
  requestId?: string | number | null | undefined;
  /** The tenant that acts: it must own the node. */
  tenantId: string | number;
  /** The version that you read; CONFLICT when the node changed since. */
  version?: number | null | undefined;
};

/** Which node to drain, and why. */
export type NodeDrainInput = {
  /** By when you want it to be over. Nothing is ended by itself: past it the drain is overdue. On a drain that runs it changes nothing. */
  deadline?: string | null | undefined;
  /** The node. */
  nodeId: string | number;
  /** Free text, up to 256 characters, kept in the event. */
  reason?: string | null | undefined;
  /** Up to 128 characters, chosen by you: a repeat within 24 hours does nothing and gives the first answer. */
  requestId?: string | number | null | undefined;
  /** The tenant that acts: it must own the node. */
  tenantId: string | number;
  /** The version that you read; CONFLICT when the node changed since. */
  version?: number | null | undefined;
};

/** Which nodes to list: all conditions must hold. */
export type NodeFilter = {
  /** Whose newest session is of a daemon of one of these versions. */
  agentVersions?: Array<string> | null | undefined;
  /** With one of these connectivities. */
  connectivity?: Array<Connectivity> | null | undefined;
  /** Cordoned past the end that the author gave, or not. */
  cordonOverdue?: boolean | null | undefined;
  /** Cordoned, or not. */
  cordoned?: boolean | null | undefined;
  /** Cordoned since before that moment. */
  cordonedBefore?: string | null | undefined;
  /** Dedicated to that tenant, alone or among others. */
  dedicatedTo?: string | number | null | undefined;
  /** Draining past the deadline, or not. */
  drainOverdue?: boolean | null | undefined;
  /** Draining, or not. */
  draining?: boolean | null | undefined;
  /** With these host names. */
  hostnames?: Array<string> | null | undefined;
  /** The tenant's deleted nodes too; only in the outermost filter of nodes. */
  includeDeleted?: boolean;
  /** With all of these labels. */
  labels?: Array<LabelMatch> | null | undefined;
  /** Last heard of before that moment; a node that never had a session counts from when it joined. */
  lastSeenBefore?: string | null | undefined;
  /** With live allocations, or without. */
  liveAllocations?: boolean | null | undefined;
  /** In maintenance, or not. */
  maintenance?: boolean | null | undefined;
  /** Of these ids. */
  nodeIds?: Array<string | number> | null | undefined;
  /** That this filter does not match. Filters nest 3 deep, and hold 32 at most. */
  not?: NodeFilter | null | undefined;
  /** That at least one of these filters matches, besides everything above. */
  or?: Array<NodeFilter> | null | undefined;
  /** With one of these answers to whom new work can land. */
  placeableFor?: Array<PlaceableFor> | null | undefined;
  /** Of that pool. */
  poolId?: string | number | null | undefined;
  /** In one of these states. */
  provisionStates?: Array<ProvisionState> | null | undefined;
  /** With one of these entries in noScheduleReasons. */
  reasons?: Array<string> | null | undefined;
  /** With one of these taints, named by key as in rma-pending or dedicated=acme. */
  taints?: Array<string> | null | undefined;
  /** Host name, id or a label's value holds the text, whatever the case. */
  text?: string | null | undefined;
};

/** Which labels to set and remove. At least one of the lists must hold a key. */
export type NodeLabelInput = {
  /** The node. */
  nodeId: string | number;
  /** Free text, up to 256 characters, kept in the event. */
  reason?: string | null | undefined;
  /** Up to 64 keys, none of which is in set. Only the operator's labels are removed; bc.dev/ is INVALID_INPUT. */
  remove?: Array<string> | null | undefined;
  /** Up to 128 characters, chosen by you: a repeat within 24 hours does nothing and gives the first answer. */
  requestId?: string | number | null | undefined;
  /** Up to 64 labels, each key once. A key that inventory or the system owns, or that begins with bc.dev/, is INVALID_INPUT. */
  set?: Array<LabelInput> | null | undefined;
  /** The tenant that acts: it must own the node. */
  tenantId: string | number;
  /** The version that you read; CONFLICT when the node changed since. */
  version?: number | null | undefined;
};

/** The order of a list of nodes. */
export type NodeOrder =
  /** The newest first. */
  | 'CREATED_DESC'
  /** By host name. */
  | 'HOSTNAME_ASC'
  /** Those not heard of for the longest first. */
  | 'LAST_SEEN_ASC'
  /** Those out of service for the longest first, those in service last. */
  | 'OUT_SINCE_ASC';

/** What to select: filter or nodeIds, one of the two. */
export type NodeSelectionCreateInput = {
  /** How many there must be; CONFLICT { expected, actual } when there are others, and nothing is selected. */
  expectCount?: number | null | undefined;
  /** Which of the nodes that the tenant sees; not the deleted ones. */
  filter?: NodeFilter | null | undefined;
  /** These nodes, up to 5,000, each once. */
  nodeIds?: Array<string | number> | null | undefined;
  /** Up to 128 characters, chosen by you: a repeat within 24 hours does nothing and gives the first answer. */
  requestId?: string | number | null | undefined;
  /** The tenant that asks. */
  tenantId: string | number;
};

/** Which taints to add and remove. At least one of the lists must hold a key. */
export type NodeTaintInput = {
  /** Up to 32 keys: 1 to 128 letters, digits and . _ / = : -, starting and ending with a letter or digit. A key that is there already stays as it is. */
  add?: Array<string> | null | undefined;
  /** The node. */
  nodeId: string | number;
  /** Free text, up to 256 characters, kept in the event. */
  reason?: string | null | undefined;
  /** Up to 32 keys, none of which is in add. A key that is not there is no fault. */
  remove?: Array<string> | null | undefined;
  /** Up to 128 characters, chosen by you: a repeat within 24 hours does nothing and gives the first answer. */
  requestId?: string | number | null | undefined;
  /** The tenant that acts: it must own the node. */
  tenantId: string | number;
  /** The version that you read; CONFLICT when the node changed since. */
  version?: number | null | undefined;
};

/** Which node to uncordon, and why. */
export type NodeUncordonInput = {
  /** Only if the cordon's author is this one; CONFLICT when it is another. */
  ifCordonedBy?: string | null | undefined;
  /** The node. */
  nodeId: string | number;
  /** Free text, up to 256 characters, kept in the event. */
  reason?: string | null | undefined;
  /** Up to 128 characters, chosen by you: a repeat within 24 hours does nothing and gives the first answer. */
  requestId?: string | number | null | undefined;
  /** The tenant that acts: it must own the node. */
  tenantId: string | number;
  /** The version that you read; CONFLICT when the node changed since. */
  version?: number | null | undefined;
};

/** A control that can be done to many nodes at once. */
export type NodesControl =
  /** As nodeAdopt. */
  | 'ADOPT'
  /** As nodeCordon. */
  | 'CORDON'
  /** As nodeDrain, with a limit of drains in a pool if one is given. */
  | 'DRAIN'
  /** As nodeLabel. */
  | 'LABEL'
  /** As nodeTaint. */
  | 'TAINT'
  /** As nodeUncordon; only the caller's own cordons unless it is said otherwise. */
  | 'UNCORDON';

/** What to do to many nodes: of a selection, or named, one of the two. Arguments of another control are INVALID_INPUT. */
export type NodesControlInput = {
  /** nodesTaint: as nodeTaint. */
  add?: Array<string> | null | undefined;
  /** nodesUncordon: cordons whoever holds them; not beside ifCordonedBy. */
  anyone?: boolean;
  /** nodesDrain: by when you want the drains to be over. Nothing is ended by it. */
  deadline?: string | null | undefined;
  /** nodesUncordon: only the cordons of that author; absent: your own. Others are refused with CONFLICT and stay. */
  ifCordonedBy?: string | null | undefined;
  /** nodesDrain: begin one only while fewer drains than that run in the node's pool, whoever began them; the others wait. 1 to 20,000; absent: all at once. */
  maxPerPool?: number | null | undefined;
  /** These nodes, up to 5,000, each once, frozen now. */
  nodeIds?: Array<string | number> | null | undefined;
  /** Free text, up to 256 characters, kept in the events. */
  reason?: string | null | undefined;
  /** nodesTaint and nodesLabel: as theirs. */
  remove?: Array<string> | null | undefined;
  /** Up to 128 characters, chosen by you: a repeat within 24 hours does nothing and gives the same operation. */
  requestId?: string | number | null | undefined;
  /** The nodes of a selection, as they were frozen. */
  selectionId?: string | number | null | undefined;
  /** nodesLabel: as nodeLabel. */
  set?: Array<LabelInput> | null | undefined;
  /** The tenant that acts: what it does not own is refused, node by node. */
  tenantId: string | number;
  /** nodesCordon: when you mean the cordons to end. Nothing is lifted by itself. */
  until?: string | null | undefined;
};

/** Where an operation on many nodes stands. */
export type NodesOperationState =
  /** Each of its nodes has a result. */
  | 'DONE'
  /** It goes on, or waits for drains to end. */
  | 'RUNNING'
  /** Somebody stopped it: what was done stays done, and nodes without a result were left alone. */
  | 'STOPPED';

/** Which operation to stop. */
export type NodesOperationStopInput = {
  /** The operation. */
  operationId: string | number;
  /** Up to 128 characters, chosen by you: a repeat within 24 hours does nothing and gives the first answer. */
  requestId?: string | number | null | undefined;
  /** The tenant of the operation. */
  tenantId: string | number;
};

/** What became of one of many nodes. */
export type NodesOutcome =
  /** The control changed it. */
  | 'DONE'
  /** It was refused, with the code that the single control would give. */
  | 'REFUSED'
  /** There was nothing to change. */
  | 'UNCHANGED';

/** For whom new work can land on a node. */
export type PlaceableFor =
  /** Any tenant that may use the pool. */
  | 'ALL'
  /** Nobody. */
  | 'NONE'
  /** Only the tenant that the node is dedicated to. */
  | 'ONE_TENANT';

/** How far a machine has come in becoming usable. The list can grow: treat a value that you don't know as not ready. */
export type ProvisionState =
  /** Its checks passed: it can take work if nothing else keeps it out. */
  | 'ADOPTED'
  /** It has joined; its inventory and acceptance checks are awaited. */
  | 'ADOPTING'
  /** It is joining and has no credential yet. */
  | 'ENROLLING'
  /** A step failed; the failure says which. */
  | 'FAILED'
  /** A bare-metal workflow prepares it. */
  | 'PROVISIONING'
  /** It is out of service for good. */
  | 'RETIRED'
  /** A workflow takes it out of service for good. */
  | 'RETIRING';

export type CordonMutationVariables = Exact<{
  input: NodeCordonInput;
}>;


export type CordonMutation = { nodeCordon: { changed: boolean, warnings: Array<string>, node: { id: string, hostname: string, version: number, provisionState: ProvisionState, cordoned: boolean, noScheduleReasons: Array<string>, maintenance: boolean, connectivity: Connectivity, connectivitySince: string | null, deletedAt: string | null, lastSeen: string | null, placeableFor: PlaceableFor, statusSentence: string, outSince: string | null, liveAllocationCount: number, pool: { id: string, name: string }, failure: { phase: string, message: string, at: string } | null, cordon: { reason: string | null, by: string, at: string, until: string | null, overdue: boolean } | null, holds: Array<{ reason: string, owner: string, by: string | null, message: string | null, since: string | null }>, drain: { id: string, state: DrainState, reason: string | null, by: string, startedAt: string, endedAt: string | null, expectedAt: string | null, deadline: string | null, overdue: boolean, confirmedByNode: boolean | null } | null, controls: Array<{ control: string, action: string, enabled: boolean, because: string | null }> } } | null };

export type UncordonMutationVariables = Exact<{
  input: NodeUncordonInput;
}>;


export type UncordonMutation = { nodeUncordon: { changed: boolean, warnings: Array<string>, node: { id: string, hostname: string, version: number, provisionState: ProvisionState, cordoned: boolean, noScheduleReasons: Array<string>, maintenance: boolean, connectivity: Connectivity, connectivitySince: string | null, deletedAt: string | null, lastSeen: string | null, placeableFor: PlaceableFor, statusSentence: string, outSince: string | null, liveAllocationCount: number, pool: { id: string, name: string }, failure: { phase: string, message: string, at: string } | null, cordon: { reason: string | null, by: string, at: string, until: string | null, overdue: boolean } | null, holds: Array<{ reason: string, owner: string, by: string | null, message: string | null, since: string | null }>, drain: { id: string, state: DrainState, reason: string | null, by: string, startedAt: string, endedAt: string | null, expectedAt: string | null, deadline: string | null, overdue: boolean, confirmedByNode: boolean | null } | null, controls: Array<{ control: string, action: string, enabled: boolean, because: string | null }> } } | null };

export type DrainMutationVariables = Exact<{
  input: NodeDrainInput;
}>;


export type DrainMutation = { nodeDrain: { changed: boolean, warnings: Array<string>, node: { id: string, hostname: string, version: number, provisionState: ProvisionState, cordoned: boolean, noScheduleReasons: Array<string>, maintenance: boolean, connectivity: Connectivity, connectivitySince: string | null, deletedAt: string | null, lastSeen: string | null, placeableFor: PlaceableFor, statusSentence: string, outSince: string | null, liveAllocationCount: number, pool: { id: string, name: string }, failure: { phase: string, message: string, at: string } | null, cordon: { reason: string | null, by: string, at: string, until: string | null, overdue: boolean } | null, holds: Array<{ reason: string, owner: string, by: string | null, message: string | null, since: string | null }>, drain: { id: string, state: DrainState, reason: string | null, by: string, startedAt: string, endedAt: string | null, expectedAt: string | null, deadline: string | null, overdue: boolean, confirmedByNode: boolean | null } | null, controls: Array<{ control: string, action: string, enabled: boolean, because: string | null }> } } | null };

export type TaintMutationVariables = Exact<{
  input: NodeTaintInput;
}>;


export type TaintMutation = { nodeTaint: { changed: boolean, warnings: Array<string>, node: { id: string, hostname: string, version: number, provisionState: ProvisionState, cordoned: boolean, noScheduleReasons: Array<string>, maintenance: boolean, connectivity: Connectivity, connectivitySince: string | null, deletedAt: string | null, lastSeen: string | null, placeableFor: PlaceableFor, statusSentence: string, outSince: string | null, liveAllocationCount: number, pool: { id: string, name: string }, failure: { phase: string, message: string, at: string } | null, cordon: { reason: string | null, by: string, at: string, until: string | null, overdue: boolean } | null, holds: Array<{ reason: string, owner: string, by: string | null, message: string | null, since: string | null }>, drain: { id: string, state: DrainState, reason: string | null, by: string, startedAt: string, endedAt: string | null, expectedAt: string | null, deadline: string | null, overdue: boolean, confirmedByNode: boolean | null } | null, controls: Array<{ control: string, action: string, enabled: boolean, because: string | null }> } } | null };

export type LabelMutationVariables = Exact<{
  input: NodeLabelInput;
}>;


export type LabelMutation = { nodeLabel: { changed: boolean, warnings: Array<string>, node: { id: string, hostname: string, version: number, provisionState: ProvisionState, cordoned: boolean, noScheduleReasons: Array<string>, maintenance: boolean, connectivity: Connectivity, connectivitySince: string | null, deletedAt: string | null, lastSeen: string | null, placeableFor: PlaceableFor, statusSentence: string, outSince: string | null, liveAllocationCount: number, pool: { id: string, name: string }, failure: { phase: string, message: string, at: string } | null, cordon: { reason: string | null, by: string, at: string, until: string | null, overdue: boolean } | null, holds: Array<{ reason: string, owner: string, by: string | null, message: string | null, since: string | null }>, drain: { id: string, state: DrainState, reason: string | null, by: string, startedAt: string, endedAt: string | null, expectedAt: string | null, deadline: string | null, overdue: boolean, confirmedByNode: boolean | null } | null, controls: Array<{ control: string, action: string, enabled: boolean, because: string | null }> } } | null };

export type AdoptMutationVariables = Exact<{
  input: NodeAdoptInput;
}>;


export type AdoptMutation = { nodeAdopt: { changed: boolean, warnings: Array<string>, node: { id: string, hostname: string, version: number, provisionState: ProvisionState, cordoned: boolean, noScheduleReasons: Array<string>, maintenance: boolean, connectivity: Connectivity, connectivitySince: string | null, deletedAt: string | null, lastSeen: string | null, placeableFor: PlaceableFor, statusSentence: string, outSince: string | null, liveAllocationCount: number, pool: { id: string, name: string }, failure: { phase: string, message: string, at: string } | null, cordon: { reason: string | null, by: string, at: string, until: string | null, overdue: boolean } | null, holds: Array<{ reason: string, owner: string, by: string | null, message: string | null, since: string | null }>, drain: { id: string, state: DrainState, reason: string | null, by: string, startedAt: string, endedAt: string | null, expectedAt: string | null, deadline: string | null, overdue: boolean, confirmedByNode: boolean | null } | null, controls: Array<{ control: string, action: string, enabled: boolean, because: string | null }> } } | null };

export type DeleteMutationVariables = Exact<{
  input: NodeDeleteInput;
}>;


export type DeleteMutation = { nodeDelete: { nodeId: string, deleted: boolean, warnings: Array<string> } | null };

export type LabelsQueryVariables = Exact<{
  tenantId: string | number;
  nodeId: string | number;
}>;


export type LabelsQuery = { node: { id: string, version: number, labels: Array<{ key: string, value: string, source: LabelSource }> } | null };

export type DrainPlanQueryVariables = Exact<{
  tenantId: string | number;
  nodeId: string | number;
}>;


export type DrainPlanQuery = { drainPlan: { empty: boolean, liveAllocationCount: number, expectedAt: string | null, blockers: Array<{ id: string | null, reservationId: string | null, tenantId: string | null, devices: Array<string>, live: boolean, future: boolean, startsAt: string | null, endsAt: string | null, releasedAt: string | null, endedAt: string | null }> } };

export type NodeRowFragment = { id: string, hostname: string, version: number, provisionState: ProvisionState, cordoned: boolean, noScheduleReasons: Array<string>, maintenance: boolean, connectivity: Connectivity, connectivitySince: string | null, deletedAt: string | null, lastSeen: string | null, placeableFor: PlaceableFor, statusSentence: string, outSince: string | null, liveAllocationCount: number, pool: { id: string, name: string }, failure: { phase: string, message: string, at: string } | null, cordon: { reason: string | null, by: string, at: string, until: string | null, overdue: boolean } | null, holds: Array<{ reason: string, owner: string, by: string | null, message: string | null, since: string | null }>, drain: { id: string, state: DrainState, reason: string | null, by: string, startedAt: string, endedAt: string | null, expectedAt: string | null, deadline: string | null, overdue: boolean, confirmedByNode: boolean | null } | null, controls: Array<{ control: string, action: string, enabled: boolean, because: string | null }> };

export type ViewerQueryVariables = Exact<{ [key: string]: never; }>;


export type ViewerQuery = { viewer: { name: string, tenants: Array<{ id: string }> } };

export type PoolsQueryVariables = Exact<{
  tenantId: string | number;
}>;


export type PoolsQuery = { pools: Array<{ id: string, name: string }> };

export type NodesQueryVariables = Exact<{
  tenantId: string | number;
  filter?: NodeFilter | null | undefined;
  orderBy: NodeOrder;
  first: number;
  after?: string | null | undefined;
}>;


export type NodesQuery = { nodes: { totalCount: number, asOf: string, nodes: Array<{ id: string, hostname: string, version: number, provisionState: ProvisionState, cordoned: boolean, noScheduleReasons: Array<string>, maintenance: boolean, connectivity: Connectivity, connectivitySince: string | null, deletedAt: string | null, lastSeen: string | null, placeableFor: PlaceableFor, statusSentence: string, outSince: string | null, liveAllocationCount: number, pool: { id: string, name: string }, failure: { phase: string, message: string, at: string } | null, cordon: { reason: string | null, by: string, at: string, until: string | null, overdue: boolean } | null, holds: Array<{ reason: string, owner: string, by: string | null, message: string | null, since: string | null }>, drain: { id: string, state: DrainState, reason: string | null, by: string, startedAt: string, endedAt: string | null, expectedAt: string | null, deadline: string | null, overdue: boolean, confirmedByNode: boolean | null } | null, controls: Array<{ control: string, action: string, enabled: boolean, because: string | null }> }>, pageInfo: { hasNextPage: boolean, endCursor: string | null } } };

export type RowsSubscriptionVariables = Exact<{
  tenantId: string | number;
  after: string;
  nodeIds: Array<string | number> | string | number;
}>;


export type RowsSubscription = { nodeChanges: { removed: Array<string>, asOf: string, changed: Array<{ id: string, hostname: string, version: number, provisionState: ProvisionState, cordoned: boolean, noScheduleReasons: Array<string>, maintenance: boolean, connectivity: Connectivity, connectivitySince: string | null, deletedAt: string | null, lastSeen: string | null, placeableFor: PlaceableFor, statusSentence: string, outSince: string | null, liveAllocationCount: number, pool: { id: string, name: string }, failure: { phase: string, message: string, at: string } | null, cordon: { reason: string | null, by: string, at: string, until: string | null, overdue: boolean } | null, holds: Array<{ reason: string, owner: string, by: string | null, message: string | null, since: string | null }>, drain: { id: string, state: DrainState, reason: string | null, by: string, startedAt: string, endedAt: string | null, expectedAt: string | null, deadline: string | null, overdue: boolean, confirmedByNode: boolean | null } | null, controls: Array<{ control: string, action: string, enabled: boolean, because: string | null }> }> } };

export type MembersSubscriptionVariables = Exact<{
  tenantId: string | number;
  after: string;
  filter?: NodeFilter | null | undefined;
}>;


export type MembersSubscription = { nodeChanges: { removed: Array<string>, asOf: string, changed: Array<{ id: string }> } };

export type FleetSubscriptionVariables = Exact<{
  tenantId: string | number;
}>;


export type FleetSubscription = { fleetSummary: { total: number, cordoned: number, draining: number, maintenance: number, connectivity: Array<{ connectivity: Connectivity, count: number }> } };

export type CountSubscriptionVariables = Exact<{
  tenantId: string | number;
  filter?: NodeFilter | null | undefined;
}>;


export type CountSubscription = { fleetSummary: { total: number } };

export type SelectMutationVariables = Exact<{
  input: NodeSelectionCreateInput;
}>;


export type SelectMutation = { nodeSelectionCreate: { selection: { id: string, count: number, expiresAt: string } } | null };

export type PreviewQueryVariables = Exact<{
  tenantId: string | number;
  selectionId: string | number;
  control: NodesControl;
  anyone: boolean;
  add?: Array<string> | string | null | undefined;
  remove?: Array<string> | string | null | undefined;
  set?: Array<LabelInput> | LabelInput | null | undefined;
}>;


export type PreviewQuery = { nodeSelection: { id: string, preview: { done: number, unchanged: number, refused: number, groups: Array<{ outcome: NodesOutcome, code: string | null, because: string | null, provisionState: ProvisionState | null, cordoned: boolean, draining: boolean, count: number }> } } };

export type OperationFragment = { id: string, control: NodesControl, state: NodesOperationState, by: string, reason: string | null, maxPerPool: number | null, count: number, done: number, unchanged: number, refused: number, left: number, waiting: string | null, createdAt: string, endedAt: string | null, endedBy: string | null };

export type ResultFragment = { nodeId: string, outcome: NodesOutcome, code: string | null, message: string | null, at: string, node: { id: string, hostname: string } | null };

export type NodesCordonMutationVariables = Exact<{
  input: NodesControlInput;
}>;


export type NodesCordonMutation = { nodesCordon: { warnings: Array<string>, operation: { id: string, control: NodesControl, state: NodesOperationState, by: string, reason: string | null, maxPerPool: number | null, count: number, done: number, unchanged: number, refused: number, left: number, waiting: string | null, createdAt: string, endedAt: string | null, endedBy: string | null } } | null };

export type NodesUncordonMutationVariables = Exact<{
  input: NodesControlInput;
}>;


export type NodesUncordonMutation = { nodesUncordon: { warnings: Array<string>, operation: { id: string, control: NodesControl, state: NodesOperationState, by: string, reason: string | null, maxPerPool: number | null, count: number, done: number, unchanged: number, refused: number, left: number, waiting: string | null, createdAt: string, endedAt: string | null, endedBy: string | null } } | null };

export type NodesDrainMutationVariables = Exact<{
  input: NodesControlInput;
}>;


export type NodesDrainMutation = { nodesDrain: { warnings: Array<string>, operation: { id: string, control: NodesControl, state: NodesOperationState, by: string, reason: string | null, maxPerPool: number | null, count: number, done: number, unchanged: number, refused: number, left: number, waiting: string | null, createdAt: string, endedAt: string | null, endedBy: string | null } } | null };

export type NodesTaintMutationVariables = Exact<{
  input: NodesControlInput;
}>;


export type NodesTaintMutation = { nodesTaint: { warnings: Array<string>, operation: { id: string, control: NodesControl, state: NodesOperationState, by: string, reason: string | null, maxPerPool: number | null, count: number, done: number, unchanged: number, refused: number, left: number, waiting: string | null, createdAt: string, endedAt: string | null, endedBy: string | null } } | null };

export type NodesLabelMutationVariables = Exact<{
  input: NodesControlInput;
}>;


export type NodesLabelMutation = { nodesLabel: { warnings: Array<string>, operation: { id: string, control: NodesControl, state: NodesOperationState, by: string, reason: string | null, maxPerPool: number | null, count: number, done: number, unchanged: number, refused: number, left: number, waiting: string | null, createdAt: string, endedAt: string | null, endedBy: string | null } } | null };

export type NodesAdoptMutationVariables = Exact<{
  input: NodesControlInput;
}>;


export type NodesAdoptMutation = { nodesAdopt: { warnings: Array<string>, operation: { id: string, control: NodesControl, state: NodesOperationState, by: string, reason: string | null, maxPerPool: number | null, count: number, done: number, unchanged: number, refused: number, left: number, waiting: string | null, createdAt: string, endedAt: string | null, endedBy: string | null } } | null };

export type StopOperationMutationVariables = Exact<{
  input: NodesOperationStopInput;
}>;


export type StopOperationMutation = { nodesOperationStop: { operation: { id: string, control: NodesControl, state: NodesOperationState, by: string, reason: string | null, maxPerPool: number | null, count: number, done: number, unchanged: number, refused: number, left: number, waiting: string | null, createdAt: string, endedAt: string | null, endedBy: string | null } } | null };

export type RunningOperationsQueryVariables = Exact<{
  tenantId: string | number;
}>;


export type RunningOperationsQuery = { nodesOperations: { nodes: Array<{ id: string, control: NodesControl, state: NodesOperationState, by: string, reason: string | null, maxPerPool: number | null, count: number, done: number, unchanged: number, refused: number, left: number, waiting: string | null, createdAt: string, endedAt: string | null, endedBy: string | null }> } };

export type OperationResultsQueryVariables = Exact<{
  tenantId: string | number;
  operationId: string | number;
  outcomes?: Array<NodesOutcome> | NodesOutcome | null | undefined;
  after?: string | null | undefined;
}>;


export type OperationResultsQuery = { nodesOperation: { id: string, control: NodesControl, state: NodesOperationState, by: string, reason: string | null, maxPerPool: number | null, count: number, done: number, unchanged: number, refused: number, left: number, waiting: string | null, createdAt: string, endedAt: string | null, endedBy: string | null, results: { nodes: Array<{ nodeId: string, outcome: NodesOutcome, code: string | null, message: string | null, at: string, node: { id: string, hostname: string } | null }>, pageInfo: { hasNextPage: boolean, endCursor: string | null } } } };

export type FollowOperationSubscriptionVariables = Exact<{
  tenantId: string | number;
  operationId: string | number;
  after?: string | null | undefined;
}>;


export type FollowOperationSubscription = { nodesOperation: { cursor: string | null, id: string, control: NodesControl, state: NodesOperationState, by: string, reason: string | null, maxPerPool: number | null, count: number, done: number, unchanged: number, refused: number, left: number, waiting: string | null, createdAt: string, endedAt: string | null, endedBy: string | null, newResults: Array<{ nodeId: string, outcome: NodesOutcome, code: string | null, message: string | null, at: string, node: { id: string, hostname: string } | null }> } };

export type DrainLineFragment = { id: string, state: DrainState, reason: string | null, by: string, startedAt: string, endedAt: string | null, endedBy: string | null, cause: string | null, deadline: string | null, overdue: boolean, expectedAt: string | null, endedAllocationCount: number, confirmedByNode: boolean | null, node: { id: string, hostname: string, version: number, provisionState: ProvisionState, cordoned: boolean, noScheduleReasons: Array<string>, maintenance: boolean, connectivity: Connectivity, connectivitySince: string | null, deletedAt: string | null, lastSeen: string | null, placeableFor: PlaceableFor, statusSentence: string, outSince: string | null, liveAllocationCount: number, pool: { id: string, name: string }, failure: { phase: string, message: string, at: string } | null, cordon: { reason: string | null, by: string, at: string, until: string | null, overdue: boolean } | null, holds: Array<{ reason: string, owner: string, by: string | null, message: string | null, since: string | null }>, drain: { id: string, state: DrainState, reason: string | null, by: string, startedAt: string, endedAt: string | null, expectedAt: string | null, deadline: string | null, overdue: boolean, confirmedByNode: boolean | null } | null, controls: Array<{ control: string, action: string, enabled: boolean, because: string | null }> } };

export type DrainsQueryVariables = Exact<{
  tenantId: string | number;
  active: boolean;
  first: number;
  after?: string | null | undefined;
}>;


export type DrainsQuery = { drains: { nodes: Array<{ id: string, state: DrainState, reason: string | null, by: string, startedAt: string, endedAt: string | null, endedBy: string | null, cause: string | null, deadline: string | null, overdue: boolean, expectedAt: string | null, endedAllocationCount: number, confirmedByNode: boolean | null, node: { id: string, hostname: string, version: number, provisionState: ProvisionState, cordoned: boolean, noScheduleReasons: Array<string>, maintenance: boolean, connectivity: Connectivity, connectivitySince: string | null, deletedAt: string | null, lastSeen: string | null, placeableFor: PlaceableFor, statusSentence: string, outSince: string | null, liveAllocationCount: number, pool: { id: string, name: string }, failure: { phase: string, message: string, at: string } | null, cordon: { reason: string | null, by: string, at: string, until: string | null, overdue: boolean } | null, holds: Array<{ reason: string, owner: string, by: string | null, message: string | null, since: string | null }>, drain: { id: string, state: DrainState, reason: string | null, by: string, startedAt: string, endedAt: string | null, expectedAt: string | null, deadline: string | null, overdue: boolean, confirmedByNode: boolean | null } | null, controls: Array<{ control: string, action: string, enabled: boolean, because: string | null }> } }>, pageInfo: { hasNextPage: boolean, endCursor: string | null } } };

export type DrainChangesSubscriptionVariables = Exact<{
  tenantId: string | number;
  after: string;
}>;


export type DrainChangesSubscription = { drainChanges: { id: string, state: DrainState, reason: string | null, by: string, startedAt: string, endedAt: string | null, endedBy: string | null, cause: string | null, deadline: string | null, overdue: boolean, expectedAt: string | null, endedAllocationCount: number, confirmedByNode: boolean | null, node: { id: string, hostname: string, version: number, provisionState: ProvisionState, cordoned: boolean, noScheduleReasons: Array<string>, maintenance: boolean, connectivity: Connectivity, connectivitySince: string | null, deletedAt: string | null, lastSeen: string | null, placeableFor: PlaceableFor, statusSentence: string, outSince: string | null, liveAllocationCount: number, pool: { id: string, name: string }, failure: { phase: string, message: string, at: string } | null, cordon: { reason: string | null, by: string, at: string, until: string | null, overdue: boolean } | null, holds: Array<{ reason: string, owner: string, by: string | null, message: string | null, since: string | null }>, drain: { id: string, state: DrainState, reason: string | null, by: string, startedAt: string, endedAt: string | null, expectedAt: string | null, deadline: string | null, overdue: boolean, confirmedByNode: boolean | null } | null, controls: Array<{ control: string, action: string, enabled: boolean, because: string | null }> } } };

type EventLine_AllocationEvent_Fragment = { __typename: 'AllocationEvent', reservationId: string | null, id: string, cursor: string, type: string, at: string, nodeId: string | null, actor: string, reason: string | null, node: { id: string, hostname: string } | null };

type EventLine_CertificateSecurityEvent_Fragment = { __typename: 'CertificateSecurityEvent', serial: string | null, claimedNodeId: string | null, id: string, cursor: string, type: string, at: string, nodeId: string | null, actor: string, reason: string | null, node: { id: string, hostname: string } | null };

type EventLine_GenericEvent_Fragment = { __typename: 'GenericEvent', data: unknown, id: string, cursor: string, type: string, at: string, nodeId: string | null, actor: string, reason: string | null, node: { id: string, hostname: string } | null };

type EventLine_JoinTokenEvent_Fragment = { __typename: 'JoinTokenEvent', id: string, cursor: string, type: string, at: string, nodeId: string | null, actor: string, reason: string | null, node: { id: string, hostname: string } | null };

type EventLine_JoinTokenSecurityEvent_Fragment = { __typename: 'JoinTokenSecurityEvent', joinTokenId: string | null, hostname: string | null, refusal: JoinTokenRefusal | null, id: string, cursor: string, type: string, at: string, nodeId: string | null, actor: string, reason: string | null, node: { id: string, hostname: string } | null };

type EventLine_NodeAdoptionEvent_Fragment = { __typename: 'NodeAdoptionEvent', checks: Array<string> | null, id: string, cursor: string, type: string, at: string, nodeId: string | null, actor: string, reason: string | null, node: { id: string, hostname: string } | null };

type EventLine_NodeConditionEvent_Fragment = { __typename: 'NodeConditionEvent', condition: string | null, message: string | null, id: string, cursor: string, type: string, at: string, nodeId: string | null, actor: string, reason: string | null, node: { id: string, hostname: string } | null };

type EventLine_NodeCordonEvent_Fragment = { __typename: 'NodeCordonEvent', until: string | null, cancelledDrainId: string | null, id: string, cursor: string, type: string, at: string, nodeId: string | null, actor: string, reason: string | null, node: { id: string, hostname: string } | null };

type EventLine_NodeDeleted_Fragment = { __typename: 'NodeDeleted', id: string, cursor: string, type: string, at: string, nodeId: string | null, actor: string, reason: string | null, node: { id: string, hostname: string } | null };

type EventLine_NodeDrained_Fragment = { __typename: 'NodeDrained', drainId: string, confirmedByNode: boolean, id: string, cursor: string, type: string, at: string, nodeId: string | null, actor: string, reason: string | null, node: { id: string, hostname: string } | null };

type EventLine_NodeDraining_Fragment = { __typename: 'NodeDraining', drainId: string, deadline: string | null, id: string, cursor: string, type: string, at: string, nodeId: string | null, actor: string, reason: string | null, node: { id: string, hostname: string } | null };

type EventLine_NodeInventoryEvent_Fragment = { __typename: 'NodeInventoryEvent', id: string, cursor: string, type: string, at: string, nodeId: string | null, actor: string, reason: string | null, node: { id: string, hostname: string } | null };

type EventLine_NodeJoinEvent_Fragment = { __typename: 'NodeJoinEvent', generation: number | null, id: string, cursor: string, type: string, at: string, nodeId: string | null, actor: string, reason: string | null, node: { id: string, hostname: string } | null };

type EventLine_NodeLabelEvent_Fragment = { __typename: 'NodeLabelEvent', id: string, cursor: string, type: string, at: string, nodeId: string | null, actor: string, reason: string | null, labelsSet: Array<{ key: string, value: string }> | null, labelsRemoved: Array<{ key: string, value: string }> | null, labelsDisplaced: Array<{ key: string, value: string }> | null, node: { id: string, hostname: string } | null };

type EventLine_NodeSessionEvent_Fragment = { __typename: 'NodeSessionEvent', gateway: string | null, cause: string | null, lastSeen: string | null, id: string, cursor: string, type: string, at: string, nodeId: string | null, actor: string, reason: string | null, node: { id: string, hostname: string } | null };

type EventLine_NodeTaintEvent_Fragment = { __typename: 'NodeTaintEvent', taintsAdded: Array<string> | null, taintsRemoved: Array<string> | null, id: string, cursor: string, type: string, at: string, nodeId: string | null, actor: string, reason: string | null, node: { id: string, hostname: string } | null };

type EventLine_PoolEvent_Fragment = { __typename: 'PoolEvent', id: string, cursor: string, type: string, at: string, nodeId: string | null, actor: string, reason: string | null, node: { id: string, hostname: string } | null };

type EventLine_ReservationEvent_Fragment = { __typename: 'ReservationEvent', reservationId: string | null, startsAt: string | null, endsAt: string | null, deviceUuids: Array<string> | null, id: string, cursor: string, type: string, at: string, nodeId: string | null, actor: string, reason: string | null, node: { id: string, hostname: string } | null };

type EventLine_TenantEvent_Fragment = { __typename: 'TenantEvent', id: string, cursor: string, type: string, at: string, nodeId: string | null, actor: string, reason: string | null, node: { id: string, hostname: string } | null };

export type EventLineFragment =
  | EventLine_AllocationEvent_Fragment
  | EventLine_CertificateSecurityEvent_Fragment
  | EventLine_GenericEvent_Fragment
  | EventLine_JoinTokenEvent_Fragment
  | EventLine_JoinTokenSecurityEvent_Fragment
  | EventLine_NodeAdoptionEvent_Fragment
  | EventLine_NodeConditionEvent_Fragment
  | EventLine_NodeCordonEvent_Fragment
  | EventLine_NodeDeleted_Fragment
  | EventLine_NodeDrained_Fragment
  | EventLine_NodeDraining_Fragment
  | EventLine_NodeInventoryEvent_Fragment
  | EventLine_NodeJoinEvent_Fragment
  | EventLine_NodeLabelEvent_Fragment
  | EventLine_NodeSessionEvent_Fragment
  | EventLine_NodeTaintEvent_Fragment
  | EventLine_PoolEvent_Fragment
  | EventLine_ReservationEvent_Fragment
  | EventLine_TenantEvent_Fragment
;

export type HistoryQueryVariables = Exact<{
  tenantId: string | number;
  nodeId?: string | number | null | undefined;
  types?: Array<string> | string | null | undefined;
  actor?: string | null | undefined;
  first: number;
  after?: string | null | undefined;
}>;


export type HistoryQuery = { events: { nodes: Array<
      | { __typename: 'AllocationEvent', reservationId: string | null, id: string, cursor: string, type: string, at: string, nodeId: string | null, actor: string, reason: string | null, node: { id: string, hostname: string } | null }
      | { __typename: 'CertificateSecurityEvent', serial: string | null, claimedNodeId: string | null, id: string, cursor: string, type: string, at: string, nodeId: string | null, actor: string, reason: string | null, node: { id: string, hostname: string } | null }
      | { __typename: 'GenericEvent', data: unknown, id: string, cursor: string, type: string, at: string, nodeId: string | null, actor: string, reason: string | null, node: { id: string, hostname: string } | null }
      | { __typename: 'JoinTokenEvent', id: string, cursor: string, type: string, at: string, nodeId: string | null, actor: string, reason: string | null, node: { id: string, hostname: string } | null }
      | { __typename: 'JoinTokenSecurityEvent', joinTokenId: string | null, hostname: string | null, refusal: JoinTokenRefusal | null, id: string, cursor: string, type: string, at: string, nodeId: string | null, actor: string, reason: string | null, node: { id: string, hostname: string } | null }
      | { __typename: 'NodeAdoptionEvent', checks: Array<string> | null, id: string, cursor: string, type: string, at: string, nodeId: string | null, actor: string, reason: string | null, node: { id: string, hostname: string } | null }
      | { __typename: 'NodeConditionEvent', condition: string | null, message: string | null, id: string, cursor: string, type: string, at: string, nodeId: string | null, actor: string, reason: string | null, node: { id: string, hostname: string } | null }
      | { __typename: 'NodeCordonEvent', until: string | null, cancelledDrainId: string | null, id: string, cursor: string, type: string, at: string, nodeId: string | null, actor: string, reason: string | null, node: { id: string, hostname: string } | null }
      | { __typename: 'NodeDeleted', id: string, cursor: string, type: string, at: string, nodeId: string | null, actor: string, reason: string | null, node: { id: string, hostname: string } | null }
      | { __typename: 'NodeDrained', drainId: string, confirmedByNode: boolean, id: string, cursor: string, type: string, at: string, nodeId: string | null, actor: string, reason: string | null, node: { id: string, hostname: string } | null }
      | { __typename: 'NodeDraining', drainId: string, deadline: string | null, id: string, cursor: string, type: string, at: string, nodeId: string | null, actor: string, reason: string | null, node: { id: string, hostname: string } | null }
      | { __typename: 'NodeInventoryEvent', id: string, cursor: string, type: string, at: string, nodeId: string | null, actor: string, reason: string | null, node: { id: string, hostname: string } | null }
      | { __typename: 'NodeJoinEvent', generation: number | null, id: string, cursor: string, type: string, at: string, nodeId: string | null, actor: string, reason: string | null, node: { id: string, hostname: string } | null }
      | { __typename: 'NodeLabelEvent', id: string, cursor: string, type: string, at: string, nodeId: string | null, actor: string, reason: string | null, labelsSet: Array<{ key: string, value: string }> | null, labelsRemoved: Array<{ key: string, value: string }> | null, labelsDisplaced: Array<{ key: string, value: string }> | null, node: { id: string, hostname: string } | null }
      | { __typename: 'NodeSessionEvent', gateway: string | null, cause: string | null, lastSeen: string | null, id: string, cursor: string, type: string, at: string, nodeId: string | null, actor: string, reason: string | null, node: { id: string, hostname: string } | null }
      | { __typename: 'NodeTaintEvent', taintsAdded: Array<string> | null, taintsRemoved: Array<string> | null, id: string, cursor: string, type: string, at: string, nodeId: string | null, actor: string, reason: string | null, node: { id: string, hostname: string } | null }
      | { __typename: 'PoolEvent', id: string, cursor: string, type: string, at: string, nodeId: string | null, actor: string, reason: string | null, node: { id: string, hostname: string } | null }
      | { __typename: 'ReservationEvent', reservationId: string | null, startsAt: string | null, endsAt: string | null, deviceUuids: Array<string> | null, id: string, cursor: string, type: string, at: string, nodeId: string | null, actor: string, reason: string | null, node: { id: string, hostname: string } | null }
      | { __typename: 'TenantEvent', id: string, cursor: string, type: string, at: string, nodeId: string | null, actor: string, reason: string | null, node: { id: string, hostname: string } | null }
    >, pageInfo: { hasNextPage: boolean, endCursor: string | null } } };

export type LogQueryVariables = Exact<{
  tenantId: string | number;
}>;


export type LogQuery = { log: { head: string } };

export type EventsSubscriptionVariables = Exact<{
  tenantId: string | number;
  nodeId?: string | number | null | undefined;
  types?: Array<string> | string | null | undefined;
  after: string;
}>;


export type EventsSubscription = { nodeEvents:
    | { __typename: 'AllocationEvent', reservationId: string | null, id: string, cursor: string, type: string, at: string, nodeId: string | null, actor: string, reason: string | null, node: { id: string, hostname: string } | null }
    | { __typename: 'CertificateSecurityEvent', serial: string | null, claimedNodeId: string | null, id: string, cursor: string, type: string, at: string, nodeId: string | null, actor: string, reason: string | null, node: { id: string, hostname: string } | null }
    | { __typename: 'GenericEvent', data: unknown, id: string, cursor: string, type: string, at: string, nodeId: string | null, actor: string, reason: string | null, node: { id: string, hostname: string } | null }
    | { __typename: 'JoinTokenEvent', id: string, cursor: string, type: string, at: string, nodeId: string | null, actor: string, reason: string | null, node: { id: string, hostname: string } | null }
    | { __typename: 'JoinTokenSecurityEvent', joinTokenId: string | null, hostname: string | null, refusal: JoinTokenRefusal | null, id: string, cursor: string, type: string, at: string, nodeId: string | null, actor: string, reason: string | null, node: { id: string, hostname: string } | null }
    | { __typename: 'NodeAdoptionEvent', checks: Array<string> | null, id: string, cursor: string, type: string, at: string, nodeId: string | null, actor: string, reason: string | null, node: { id: string, hostname: string } | null }
    | { __typename: 'NodeConditionEvent', condition: string | null, message: string | null, id: string, cursor: string, type: string, at: string, nodeId: string | null, actor: string, reason: string | null, node: { id: string, hostname: string } | null }
    | { __typename: 'NodeCordonEvent', until: string | null, cancelledDrainId: string | null, id: string, cursor: string, type: string, at: string, nodeId: string | null, actor: string, reason: string | null, node: { id: string, hostname: string } | null }
    | { __typename: 'NodeDeleted', id: string, cursor: string, type: string, at: string, nodeId: string | null, actor: string, reason: string | null, node: { id: string, hostname: string } | null }
    | { __typename: 'NodeDrained', drainId: string, confirmedByNode: boolean, id: string, cursor: string, type: string, at: string, nodeId: string | null, actor: string, reason: string | null, node: { id: string, hostname: string } | null }
    | { __typename: 'NodeDraining', drainId: string, deadline: string | null, id: string, cursor: string, type: string, at: string, nodeId: string | null, actor: string, reason: string | null, node: { id: string, hostname: string } | null }
    | { __typename: 'NodeInventoryEvent', id: string, cursor: string, type: string, at: string, nodeId: string | null, actor: string, reason: string | null, node: { id: string, hostname: string } | null }
    | { __typename: 'NodeJoinEvent', generation: number | null, id: string, cursor: string, type: string, at: string, nodeId: string | null, actor: string, reason: string | null, node: { id: string, hostname: string } | null }
    | { __typename: 'NodeLabelEvent', id: string, cursor: string, type: string, at: string, nodeId: string | null, actor: string, reason: string | null, labelsSet: Array<{ key: string, value: string }> | null, labelsRemoved: Array<{ key: string, value: string }> | null, labelsDisplaced: Array<{ key: string, value: string }> | null, node: { id: string, hostname: string } | null }
    | { __typename: 'NodeSessionEvent', gateway: string | null, cause: string | null, lastSeen: string | null, id: string, cursor: string, type: string, at: string, nodeId: string | null, actor: string, reason: string | null, node: { id: string, hostname: string } | null }
    | { __typename: 'NodeTaintEvent', taintsAdded: Array<string> | null, taintsRemoved: Array<string> | null, id: string, cursor: string, type: string, at: string, nodeId: string | null, actor: string, reason: string | null, node: { id: string, hostname: string } | null }
    | { __typename: 'PoolEvent', id: string, cursor: string, type: string, at: string, nodeId: string | null, actor: string, reason: string | null, node: { id: string, hostname: string } | null }
    | { __typename: 'ReservationEvent', reservationId: string | null, startsAt: string | null, endsAt: string | null, deviceUuids: Array<string> | null, id: string, cursor: string, type: string, at: string, nodeId: string | null, actor: string, reason: string | null, node: { id: string, hostname: string } | null }
    | { __typename: 'TenantEvent', id: string, cursor: string, type: string, at: string, nodeId: string | null, actor: string, reason: string | null, node: { id: string, hostname: string } | null }
   };

export type NodeDetailQueryVariables = Exact<{
  tenantId: string | number;
  nodeId: string | number;
}>;


export type NodeDetailQuery = { nodes: { asOf: string, nodes: Array<{ id: string, hostname: string, version: number, provisionState: ProvisionState, cordoned: boolean, noScheduleReasons: Array<string>, maintenance: boolean, connectivity: Connectivity, connectivitySince: string | null, deletedAt: string | null, lastSeen: string | null, placeableFor: PlaceableFor, statusSentence: string, outSince: string | null, liveAllocationCount: number, pool: { id: string, name: string }, failure: { phase: string, message: string, at: string } | null, cordon: { reason: string | null, by: string, at: string, until: string | null, overdue: boolean } | null, holds: Array<{ reason: string, owner: string, by: string | null, message: string | null, since: string | null }>, drain: { id: string, state: DrainState, reason: string | null, by: string, startedAt: string, endedAt: string | null, expectedAt: string | null, deadline: string | null, overdue: boolean, confirmedByNode: boolean | null } | null, controls: Array<{ control: string, action: string, enabled: boolean, because: string | null }> }> }, node: { id: string, version: number, connectivity: Connectivity, liveAllocationCount: number, key: string, tenantId: string, createdAt: string, identityGeneration: number, labels: Array<{ key: string, value: string, source: LabelSource }>, session: { gateway: string, since: string, endedAt: string | null, agentVersion: string, bootId: string, clockSkewMs: number } | null, checks: Array<{ name: string, status: CheckStatus, message: string, evidence: Array<string>, durationMs: number | null, startedAt: string, endedAt: string | null }>, drain: { id: string, endedAllocationCount: number, blockers: Array<{ id: string | null, reservationId: string | null, tenantId: string | null, devices: Array<string>, live: boolean, future: boolean, startsAt: string | null, endsAt: string | null, releasedAt: string | null, endedAt: string | null }> } | null, lastDrain: { id: string, state: DrainState, reason: string | null, by: string, startedAt: string, endedAt: string | null, endedBy: string | null, cause: string | null, endedAllocationCount: number, confirmedByNode: boolean | null } | null, allocations: { nodes: Array<{ id: string | null, reservationId: string | null, tenantId: string | null, devices: Array<string>, live: boolean, future: boolean, startsAt: string | null, endsAt: string | null, releasedAt: string | null, endedAt: string | null }>, pageInfo: { hasNextPage: boolean, endCursor: string | null } }, devices: Array<{ uuid: string, kind: DeviceKind, slot: number, model: string, memoryBytes: string, serial: string | null, pciAddress: string | null, missingSince: string | null, held: boolean, inUse: boolean | null }>, storageRoots: Array<{ path: string, uuid: string | null, device: string | null, fsType: string, sizeBytes: string, missingSince: string | null }>, scalarResources: Array<{ name: string, amount: string, unit: string }>, inventory: { reportedAt: string, stale: boolean, os: string | null, kernel: string | null, vendor: string | null, model: string | null, serial: string | null, cpuModel: string | null, cpuArch: string | null, cpuCores: number | null, cpuThreads: number | null, memoryBytes: string | null, gpuNote: string | null } | null, certificates: { nodes: Array<{ serial: string, state: CertificateState, generation: number, keyFingerprint: string, issuedAt: string, notAfter: string, firstUsedAt: string | null, endedAt: string | null, endedBy: string | null, reason: string | null }>, pageInfo: { hasNextPage: boolean } } } | null };

export type AllocationLineFragment = { id: string | null, reservationId: string | null, tenantId: string | null, devices: Array<string>, live: boolean, future: boolean, startsAt: string | null, endsAt: string | null, releasedAt: string | null, endedAt: string | null };

export type AllocationsQueryVariables = Exact<{
  tenantId: string | number;
  nodeId: string | number;
  after?: string | null | undefined;
}>;


export type AllocationsQuery = { node: { id: string, allocations: { nodes: Array<{ id: string | null, reservationId: string | null, tenantId: string | null, devices: Array<string>, live: boolean, future: boolean, startsAt: string | null, endsAt: string | null, releasedAt: string | null, endedAt: string | null }>, pageInfo: { hasNextPage: boolean, endCursor: string | null } } } | null };

export class TypedDocumentString<TResult, TVariables>
  extends String
  implements DocumentTypeDecoration<TResult, TVariables>
{
  __apiType?: NonNullable<DocumentTypeDecoration<TResult, TVariables>['__apiType']>;
  private value: string;
  public __meta__?: Record<string, any> | undefined;

  constructor(value: string, __meta__?: Record<string, any> | undefined) {
    super(value);
    this.value = value;
    this.__meta__ = __meta__;
  }

  override toString(): string & DocumentTypeDecoration<TResult, TVariables> {
    return this.value;
  }
}
export const OperationFragmentDoc = new TypedDocumentString(`
    fragment Operation on NodesOperation {
  id
  control
  state
  by
  reason
  maxPerPool
  count
  done
  unchanged
  refused
  left
  waiting
  createdAt
  endedAt
  endedBy
}
    `, {"fragmentName":"Operation"}) as unknown as TypedDocumentString<OperationFragment, unknown>;
export const ResultFragmentDoc = new TypedDocumentString(`
    fragment Result on NodesOperationResult {
  nodeId
  outcome
  code
  message
  at
  node {
    id
    hostname
  }
}
    `, {"fragmentName":"Result"}) as unknown as TypedDocumentString<ResultFragment, unknown>;
export const NodeRowFragmentDoc = new TypedDocumentString(`
    fragment NodeRow on ComputeNode {
  id
  hostname
  version
  pool {
    id
    name
  }
  provisionState
  failure {
    phase
    message
    at
  }
  cordoned
  cordon {
    reason
    by
    at
    until
    overdue
  }
  noScheduleReasons
  maintenance
  connectivity
  connectivitySince
  deletedAt
  lastSeen
  placeableFor
  statusSentence
  outSince
  liveAllocationCount
  holds {
    reason
    owner
    by
    message
    since
  }
  drain {
    id
    state
    reason
    by
    startedAt
    endedAt
    expectedAt
    deadline
    overdue
    confirmedByNode
  }
  controls {
    control
    action
    enabled
    because
  }
}
    `, {"fragmentName":"NodeRow"}) as unknown as TypedDocumentString<NodeRowFragment, unknown>;
export const DrainLineFragmentDoc = new TypedDocumentString(`
    fragment DrainLine on Drain {
  id
  state
  reason
  by
  startedAt
  endedAt
  endedBy
  cause
  deadline
  overdue
  expectedAt
  endedAllocationCount
  confirmedByNode
  node {
    ...NodeRow
  }
}
    fragment NodeRow on ComputeNode {
  id
  hostname
  version
  pool {
    id
    name
  }
  provisionState
  failure {
    phase
    message
    at
  }
  cordoned
  cordon {
    reason
    by
    at
    until
    overdue
  }
  noScheduleReasons
  maintenance
  connectivity
  connectivitySince
  deletedAt
  lastSeen
  placeableFor
  statusSentence
  outSince
  liveAllocationCount
  holds {
    reason
    owner
    by
    message
    since
  }
  drain {
    id
    state
    reason
    by
    startedAt
    endedAt
    expectedAt
    deadline
    overdue
    confirmedByNode
  }
  controls {
    control
    action
    enabled
    because
  }
}`, {"fragmentName":"DrainLine"}) as unknown as TypedDocumentString<DrainLineFragment, unknown>;
export const EventLineFragmentDoc = new TypedDocumentString(`
    fragment EventLine on Event {
  __typename
  id
  cursor
  type
  at
  nodeId
  actor
  reason
  node {
    id
    hostname
  }
  ... on NodeCordonEvent {
    until
    cancelledDrainId
  }
  ... on NodeDraining {
    drainId
    deadline
  }
  ... on NodeDrained {
    drainId
    confirmedByNode
  }
  ... on NodeTaintEvent {
    taintsAdded
    taintsRemoved
  }
  ... on NodeLabelEvent {
    labelsSet {
      key
      value
    }
    labelsRemoved {
      key
      value
    }
    labelsDisplaced {
      key
      value
    }
  }
  ... on NodeJoinEvent {
    generation
  }
  ... on NodeAdoptionEvent {
    checks
  }
  ... on NodeConditionEvent {
    condition
    message
  }
  ... on NodeSessionEvent {
    gateway
    cause
    lastSeen
  }
  ... on ReservationEvent {
    reservationId
    startsAt
    endsAt
    deviceUuids
  }
  ... on AllocationEvent {
    reservationId
  }
  ... on CertificateSecurityEvent {
    serial
    claimedNodeId
  }
  ... on JoinTokenSecurityEvent {
    joinTokenId
    hostname
    refusal
  }
  ... on GenericEvent {
    data
  }
}
    `, {"fragmentName":"EventLine"}) as unknown as TypedDocumentString<EventLineFragment, unknown>;
export const AllocationLineFragmentDoc = new TypedDocumentString(`
    fragment AllocationLine on Allocation {
  id
  reservationId
  tenantId
  devices
  live
  future
  startsAt
  endsAt
  releasedAt
  endedAt
}
    `, {"fragmentName":"AllocationLine"}) as unknown as TypedDocumentString<AllocationLineFragment, unknown>;
export const CordonDocument = new TypedDocumentString(`
    mutation Cordon($input: NodeCordonInput!) {
  nodeCordon(input: $input) {
    node {
      ...NodeRow
    }
    changed
    warnings
  }
}
    fragment NodeRow on ComputeNode {
  id
  hostname
  version
  pool {
    id
    name
  }
  provisionState
  failure {
    phase
    message
    at
  }
  cordoned
  cordon {
    reason
    by
    at
    until
    overdue
  }
  noScheduleReasons
  maintenance
  connectivity
  connectivitySince
  deletedAt
  lastSeen
  placeableFor
  statusSentence
  outSince
  liveAllocationCount
  holds {
    reason
    owner
    by
    message
    since
  }
  drain {
    id
    state
    reason
    by
    startedAt
    endedAt
    expectedAt
    deadline
    overdue
    confirmedByNode
  }
  controls {
    control
    action
    enabled
    because
  }
}`) as unknown as TypedDocumentString<CordonMutation, CordonMutationVariables>;
export const UncordonDocument = new TypedDocumentString(`
    mutation Uncordon($input: NodeUncordonInput!) {
  nodeUncordon(input: $input) {
    node {
      ...NodeRow
    }
    changed
    warnings
  }
}
    fragment NodeRow on ComputeNode {
  id
  hostname
  version
  pool {
    id
    name
  }
  provisionState
  failure {
    phase
    message
    at
  }
  cordoned
  cordon {
    reason
    by
    at
    until
    overdue
  }
  noScheduleReasons
  maintenance
  connectivity
  connectivitySince
  deletedAt
  lastSeen
  placeableFor
  statusSentence
  outSince
  liveAllocationCount
  holds {
    reason
    owner
    by
    message
    since
  }
  drain {
    id
    state
    reason
    by
    startedAt
    endedAt
    expectedAt
    deadline
    overdue
    confirmedByNode
  }
  controls {
    control
    action
    enabled
    because
  }
}`) as unknown as TypedDocumentString<UncordonMutation, UncordonMutationVariables>;
export const DrainDocument = new TypedDocumentString(`
    mutation Drain($input: NodeDrainInput!) {
  nodeDrain(input: $input) {
    node {
      ...NodeRow
    }
    changed
    warnings
  }
}
    fragment NodeRow on ComputeNode {
  id
  hostname
  version
  pool {
    id
    name
  }
  provisionState
  failure {
    phase
    message
    at
  }
  cordoned
  cordon {
    reason
    by
    at
    until
    overdue
  }
  noScheduleReasons
  maintenance
  connectivity
  connectivitySince
  deletedAt
  lastSeen
  placeableFor
  statusSentence
  outSince
  liveAllocationCount
  holds {
    reason
    owner
    by
    message
    since
  }
  drain {
    id
    state
    reason
    by
    startedAt
    endedAt
    expectedAt
    deadline
    overdue
    confirmedByNode
  }
  controls {
    control
    action
    enabled
    because
  }
}`) as unknown as TypedDocumentString<DrainMutation, DrainMutationVariables>;
export const TaintDocument = new TypedDocumentString(`
    mutation Taint($input: NodeTaintInput!) {
  nodeTaint(input: $input) {
    node {
      ...NodeRow
    }
    changed
    warnings
  }
}
    fragment NodeRow on ComputeNode {
  id
  hostname
  version
  pool {
    id
    name
  }
  provisionState
  failure {
    phase
    message
    at
  }
  cordoned
  cordon {
    reason
    by
    at
    until
    overdue
  }
  noScheduleReasons
  maintenance
  connectivity
  connectivitySince
  deletedAt
  lastSeen
  placeableFor
  statusSentence
  outSince
  liveAllocationCount
  holds {
    reason
    owner
    by
    message
    since
  }
  drain {
    id
    state
    reason
    by
    startedAt
    endedAt
    expectedAt
    deadline
    overdue
    confirmedByNode
  }
  controls {
    control
    action
    enabled
    because
  }
}`) as unknown as TypedDocumentString<TaintMutation, TaintMutationVariables>;
export const LabelDocument = new TypedDocumentString(`
    mutation Label($input: NodeLabelInput!) {
  nodeLabel(input: $input) {
    node {
      ...NodeRow
    }
    changed
    warnings
  }
}
    fragment NodeRow on ComputeNode {
  id
  hostname
  version
  pool {
    id
    name
  }
  provisionState
  failure {
    phase
    message
    at
  }
  cordoned
  cordon {
    reason
    by
    at
    until
    overdue
  }
  noScheduleReasons
  maintenance
  connectivity
  connectivitySince
  deletedAt
  lastSeen
  placeableFor
  statusSentence
  outSince
  liveAllocationCount
  holds {
    reason
    owner
    by
    message
    since
  }
  drain {
    id
    state
    reason
    by
    startedAt
    endedAt
    expectedAt
    deadline
    overdue
    confirmedByNode
  }
  controls {
    control
    action
    enabled
    because
  }
}`) as unknown as TypedDocumentString<LabelMutation, LabelMutationVariables>;
export const AdoptDocument = new TypedDocumentString(`
    mutation Adopt($input: NodeAdoptInput!) {
  nodeAdopt(input: $input) {
    node {
      ...NodeRow
    }
    changed
    warnings
  }
}
    fragment NodeRow on ComputeNode {
  id
  hostname
  version
  pool {
    id
    name
  }
  provisionState
  failure {
    phase
    message
    at
  }
  cordoned
  cordon {
    reason
    by
    at
    until
    overdue
  }
  noScheduleReasons
  maintenance
  connectivity
  connectivitySince
  deletedAt
  lastSeen
  placeableFor
  statusSentence
  outSince
  liveAllocationCount
  holds {
    reason
    owner
    by
    message
    since
  }
  drain {
    id
    state
    reason
    by
    startedAt
    endedAt
    expectedAt
    deadline
    overdue
    confirmedByNode
  }
  controls {
    control
    action
    enabled
    because
  }
}`) as unknown as TypedDocumentString<AdoptMutation, AdoptMutationVariables>;
export const DeleteDocument = new TypedDocumentString(`
    mutation Delete($input: NodeDeleteInput!) {
  nodeDelete(input: $input) {
    nodeId
    deleted
    warnings
  }
}
    `) as unknown as TypedDocumentString<DeleteMutation, DeleteMutationVariables>;
export const LabelsDocument = new TypedDocumentString(`
    query Labels($tenantId: ID!, $nodeId: ID!) {
  node(tenantId: $tenantId, nodeId: $nodeId) {
    id
    version
    labels {
      key
      value
      source
    }
  }
}
    `) as unknown as TypedDocumentString<LabelsQuery, LabelsQueryVariables>;
export const DrainPlanDocument = new TypedDocumentString(`
    query DrainPlan($tenantId: ID!, $nodeId: ID!) {
  drainPlan(tenantId: $tenantId, nodeId: $nodeId) {
    empty
    liveAllocationCount
    expectedAt
    blockers {
      ...AllocationLine
    }
  }
}
    fragment AllocationLine on Allocation {
  id
  reservationId
  tenantId
  devices
  live
  future
  startsAt
  endsAt
  releasedAt
  endedAt
}`) as unknown as TypedDocumentString<DrainPlanQuery, DrainPlanQueryVariables>;
export const ViewerDocument = new TypedDocumentString(`
    query Viewer {
  viewer {
    name
    tenants {
      id
    }
  }
}
    `) as unknown as TypedDocumentString<ViewerQuery, ViewerQueryVariables>;
export const PoolsDocument = new TypedDocumentString(`
    query Pools($tenantId: ID!) {
  pools(tenantId: $tenantId) {
    id
    name
  }
}
    `) as unknown as TypedDocumentString<PoolsQuery, PoolsQueryVariables>;
export const NodesDocument = new TypedDocumentString(`
    query Nodes($tenantId: ID!, $filter: NodeFilter, $orderBy: NodeOrder!, $first: Int!, $after: Cursor) {
  nodes(
    tenantId: $tenantId
    filter: $filter
    orderBy: $orderBy
    first: $first
    after: $after
  ) {
    nodes {
      ...NodeRow
    }
    pageInfo {
      hasNextPage
      endCursor
    }
    totalCount
    asOf
  }
}
    fragment NodeRow on ComputeNode {
  id
  hostname
  version
  pool {
    id
    name
  }
  provisionState
  failure {
    phase
    message
    at
  }
  cordoned
  cordon {
    reason
    by
    at
    until
    overdue
  }
  noScheduleReasons
  maintenance
  connectivity
  connectivitySince
  deletedAt
  lastSeen
  placeableFor
  statusSentence
  outSince
  liveAllocationCount
  holds {
    reason
    owner
    by
    message
    since
  }
  drain {
    id
    state
    reason
    by
    startedAt
    endedAt
    expectedAt
    deadline
    overdue
    confirmedByNode
  }
  controls {
    control
    action
    enabled
    because
  }
}`) as unknown as TypedDocumentString<NodesQuery, NodesQueryVariables>;
export const RowsDocument = new TypedDocumentString(`
    subscription Rows($tenantId: ID!, $after: Cursor!, $nodeIds: [ID!]!) {
  nodeChanges(
    tenantId: $tenantId
    after: $after
    nodeIds: $nodeIds
    maxPerSecond: 4
  ) {
    changed {
      ...NodeRow
    }
    removed
    asOf
  }
}
    fragment NodeRow on ComputeNode {
  id
  hostname
  version
  pool {
    id
    name
  }
  provisionState
  failure {
    phase
    message
    at
  }
  cordoned
  cordon {
    reason
    by
    at
    until
    overdue
  }
  noScheduleReasons
  maintenance
  connectivity
  connectivitySince
  deletedAt
  lastSeen
  placeableFor
  statusSentence
  outSince
  liveAllocationCount
  holds {
    reason
    owner
    by
    message
    since
  }
  drain {
    id
    state
    reason
    by
    startedAt
    endedAt
    expectedAt
    deadline
    overdue
    confirmedByNode
  }
  controls {
    control
    action
    enabled
    because
  }
}`) as unknown as TypedDocumentString<RowsSubscription, RowsSubscriptionVariables>;
export const MembersDocument = new TypedDocumentString(`
    subscription Members($tenantId: ID!, $after: Cursor!, $filter: NodeFilter) {
  nodeChanges(
    tenantId: $tenantId
    after: $after
    filter: $filter
    maxPerSecond: 2
  ) {
    changed {
      id
    }
    removed
    asOf
  }
}
    `) as unknown as TypedDocumentString<MembersSubscription, MembersSubscriptionVariables>;
export const FleetDocument = new TypedDocumentString(`
    subscription Fleet($tenantId: ID!) {
  fleetSummary(tenantId: $tenantId) {
    total
    connectivity {
      connectivity
      count
    }
    cordoned
    draining
    maintenance
  }
}
    `) as unknown as TypedDocumentString<FleetSubscription, FleetSubscriptionVariables>;
export const CountDocument = new TypedDocumentString(`
    subscription Count($tenantId: ID!, $filter: NodeFilter) {
  fleetSummary(tenantId: $tenantId, filter: $filter) {
    total
  }
}
    `) as unknown as TypedDocumentString<CountSubscription, CountSubscriptionVariables>;
export const SelectDocument = new TypedDocumentString(`
    mutation Select($input: NodeSelectionCreateInput!) {
  nodeSelectionCreate(input: $input) {
    selection {
      id
      count
      expiresAt
    }
  }
}
    `) as unknown as TypedDocumentString<SelectMutation, SelectMutationVariables>;
export const PreviewDocument = new TypedDocumentString(`
    query Preview($tenantId: ID!, $selectionId: ID!, $control: NodesControl!, $anyone: Boolean!, $add: [String!], $remove: [String!], $set: [LabelInput!]) {
  nodeSelection(tenantId: $tenantId, selectionId: $selectionId) {
    id
    preview(
      control: $control
      anyone: $anyone
      add: $add
      remove: $remove
      set: $set
    ) {
      done
      unchanged
      refused
      groups {
        outcome
        code
        because
        provisionState
        cordoned
        draining
        count
      }
    }
  }
}
    `) as unknown as TypedDocumentString<PreviewQuery, PreviewQueryVariables>;
export const NodesCordonDocument = new TypedDocumentString(`
    mutation NodesCordon($input: NodesControlInput!) {
  nodesCordon(input: $input) {
    warnings
    operation {
      ...Operation
    }
  }
}
    fragment Operation on NodesOperation {
  id
  control
  state
  by
  reason
  maxPerPool
  count
  done
  unchanged
  refused
  left
  waiting
  createdAt
  endedAt
  endedBy
}`) as unknown as TypedDocumentString<NodesCordonMutation, NodesCordonMutationVariables>;
export const NodesUncordonDocument = new TypedDocumentString(`
    mutation NodesUncordon($input: NodesControlInput!) {
  nodesUncordon(input: $input) {
    warnings
    operation {
      ...Operation
    }
  }
}
    fragment Operation on NodesOperation {
  id
  control
  state
  by
  reason
  maxPerPool
  count
  done
  unchanged
  refused
  left
  waiting
  createdAt
  endedAt
  endedBy
}`) as unknown as TypedDocumentString<NodesUncordonMutation, NodesUncordonMutationVariables>;
export const NodesDrainDocument = new TypedDocumentString(`
    mutation NodesDrain($input: NodesControlInput!) {
  nodesDrain(input: $input) {
    warnings
    operation {
      ...Operation
    }
  }
}
    fragment Operation on NodesOperation {
  id
  control
  state
  by
  reason
  maxPerPool
  count
  done
  unchanged
  refused
  left
  waiting
  createdAt
  endedAt
  endedBy
}`) as unknown as TypedDocumentString<NodesDrainMutation, NodesDrainMutationVariables>;
export const NodesTaintDocument = new TypedDocumentString(`
    mutation NodesTaint($input: NodesControlInput!) {
  nodesTaint(input: $input) {
    warnings
    operation {
      ...Operation
    }
  }
}
    fragment Operation on NodesOperation {
  id
  control
  state
  by
  reason
  maxPerPool
  count
  done
  unchanged
  refused
  left
  waiting
  createdAt
  endedAt
  endedBy
}`) as unknown as TypedDocumentString<NodesTaintMutation, NodesTaintMutationVariables>;
export const NodesLabelDocument = new TypedDocumentString(`
    mutation NodesLabel($input: NodesControlInput!) {
  nodesLabel(input: $input) {
    warnings
    operation {
      ...Operation
    }
  }
}
    fragment Operation on NodesOperation {
  id
  control
  state
  by
  reason
  maxPerPool
  count
  done
  unchanged
  refused
  left
  waiting
  createdAt
  endedAt
  endedBy
}`) as unknown as TypedDocumentString<NodesLabelMutation, NodesLabelMutationVariables>;
export const NodesAdoptDocument = new TypedDocumentString(`
    mutation NodesAdopt($input: NodesControlInput!) {
  nodesAdopt(input: $input) {
    warnings
    operation {
      ...Operation
    }
  }
}
    fragment Operation on NodesOperation {
  id
  control
  state
  by
  reason
  maxPerPool
  count
  done
  unchanged
  refused
  left
  waiting
  createdAt
  endedAt
  endedBy
}`) as unknown as TypedDocumentString<NodesAdoptMutation, NodesAdoptMutationVariables>;
export const StopOperationDocument = new TypedDocumentString(`
    mutation StopOperation($input: NodesOperationStopInput!) {
  nodesOperationStop(input: $input) {
    operation {
      ...Operation
    }
  }
}
    fragment Operation on NodesOperation {
  id
  control
  state
  by
  reason
  maxPerPool
  count
  done
  unchanged
  refused
  left
  waiting
  createdAt
  endedAt
  endedBy
}`) as unknown as TypedDocumentString<StopOperationMutation, StopOperationMutationVariables>;
export const RunningOperationsDocument = new TypedDocumentString(`
    query RunningOperations($tenantId: ID!) {
  nodesOperations(tenantId: $tenantId, active: true, first: 20) {
    nodes {
      ...Operation
    }
  }
}
    fragment Operation on NodesOperation {
  id
  control
  state
  by
  reason
  maxPerPool
  count
  done
  unchanged
  refused
  left
  waiting
  createdAt
  endedAt
  endedBy
}`) as unknown as TypedDocumentString<RunningOperationsQuery, RunningOperationsQueryVariables>;
export const OperationResultsDocument = new TypedDocumentString(`
    query OperationResults($tenantId: ID!, $operationId: ID!, $outcomes: [NodesOutcome!], $after: Cursor) {
  nodesOperation(tenantId: $tenantId, operationId: $operationId) {
    ...Operation
    results(outcomes: $outcomes, first: 200, after: $after) {
      nodes {
        ...Result
      }
      pageInfo {
        hasNextPage
        endCursor
      }
    }
  }
}
    fragment Operation on NodesOperation {
  id
  control
  state
  by
  reason
  maxPerPool
  count
  done
  unchanged
  refused
  left
  waiting
  createdAt
  endedAt
  endedBy
}
fragment Result on NodesOperationResult {
  nodeId
  outcome
  code
  message
  at
  node {
    id
    hostname
  }
}`) as unknown as TypedDocumentString<OperationResultsQuery, OperationResultsQueryVariables>;
export const FollowOperationDocument = new TypedDocumentString(`
    subscription FollowOperation($tenantId: ID!, $operationId: ID!, $after: Cursor) {
  nodesOperation(tenantId: $tenantId, operationId: $operationId, after: $after) {
    ...Operation
    cursor
    newResults {
      ...Result
    }
  }
}
    fragment Operation on NodesOperation {
  id
  control
  state
  by
  reason
  maxPerPool
  count
  done
  unchanged
  refused
  left
  waiting
  createdAt
  endedAt
  endedBy
}
fragment Result on NodesOperationResult {
  nodeId
  outcome
  code
  message
  at
  node {
    id
    hostname
  }
}`) as unknown as TypedDocumentString<FollowOperationSubscription, FollowOperationSubscriptionVariables>;
export const DrainsDocument = new TypedDocumentString(`
    query Drains($tenantId: ID!, $active: Boolean!, $first: Int!, $after: Cursor) {
  drains(tenantId: $tenantId, active: $active, first: $first, after: $after) {
    nodes {
      ...DrainLine
    }
    pageInfo {
      hasNextPage
      endCursor
    }
  }
}
    fragment NodeRow on ComputeNode {
  id
  hostname
  version
  pool {
    id
    name
  }
  provisionState
  failure {
    phase
    message
    at
  }
  cordoned
  cordon {
    reason
    by
    at
    until
    overdue
  }
  noScheduleReasons
  maintenance
  connectivity
  connectivitySince
  deletedAt
  lastSeen
  placeableFor
  statusSentence
  outSince
  liveAllocationCount
  holds {
    reason
    owner
    by
    message
    since
  }
  drain {
    id
    state
    reason
    by
    startedAt
    endedAt
    expectedAt
    deadline
    overdue
    confirmedByNode
  }
  controls {
    control
    action
    enabled
    because
  }
}
fragment DrainLine on Drain {
  id
  state
  reason
  by
  startedAt
  endedAt
  endedBy
  cause
  deadline
  overdue
  expectedAt
  endedAllocationCount
  confirmedByNode
  node {
    ...NodeRow
  }
}`) as unknown as TypedDocumentString<DrainsQuery, DrainsQueryVariables>;
export const DrainChangesDocument = new TypedDocumentString(`
    subscription DrainChanges($tenantId: ID!, $after: Cursor!) {
  drainChanges(tenantId: $tenantId, after: $after) {
    ...DrainLine
  }
}
    fragment NodeRow on ComputeNode {
  id
  hostname
  version
  pool {
    id
    name
  }
  provisionState
  failure {
    phase
    message
    at
  }
  cordoned
  cordon {
    reason
    by
    at
    until
    overdue
  }
  noScheduleReasons
  maintenance
  connectivity
  connectivitySince
  deletedAt
  lastSeen
  placeableFor
  statusSentence
  outSince
  liveAllocationCount
  holds {
    reason
    owner
    by
    message
    since
  }
  drain {
    id
    state
    reason
    by
    startedAt
    endedAt
    expectedAt
    deadline
    overdue
    confirmedByNode
  }
  controls {
    control
    action
    enabled
    because
  }
}
fragment DrainLine on Drain {
  id
  state
  reason
  by
  startedAt
  endedAt
  endedBy
  cause
  deadline
  overdue
  expectedAt
  endedAllocationCount
  confirmedByNode
  node {
    ...NodeRow
  }
}`) as unknown as TypedDocumentString<DrainChangesSubscription, DrainChangesSubscriptionVariables>;
export const HistoryDocument = new TypedDocumentString(`
    query History($tenantId: ID!, $nodeId: ID, $types: [String!], $actor: String, $first: Int!, $after: Cursor) {
  events(
    tenantId: $tenantId
    nodeId: $nodeId
    types: $types
    actor: $actor
    first: $first
    after: $after
  ) {
    nodes {
      ...EventLine
    }
    pageInfo {
      hasNextPage
      endCursor
    }
  }
}
    fragment EventLine on Event {
  __typename
  id
  cursor
  type
  at
  nodeId
  actor
  reason
  node {
    id
    hostname
  }
  ... on NodeCordonEvent {
    until
    cancelledDrainId
  }
  ... on NodeDraining {
    drainId
    deadline
  }
  ... on NodeDrained {
    drainId
    confirmedByNode
  }
  ... on NodeTaintEvent {
    taintsAdded
    taintsRemoved
  }
  ... on NodeLabelEvent {
    labelsSet {
      key
      value
    }
    labelsRemoved {
      key
      value
    }
    labelsDisplaced {
      key
      value
    }
  }
  ... on NodeJoinEvent {
    generation
  }
  ... on NodeAdoptionEvent {
    checks
  }
  ... on NodeConditionEvent {
    condition
    message
  }
  ... on NodeSessionEvent {
    gateway
    cause
    lastSeen
  }
  ... on ReservationEvent {
    reservationId
    startsAt
    endsAt
    deviceUuids
  }
  ... on AllocationEvent {
    reservationId
  }
  ... on CertificateSecurityEvent {
    serial
    claimedNodeId
  }
  ... on JoinTokenSecurityEvent {
    joinTokenId
    hostname
    refusal
  }
  ... on GenericEvent {
    data
  }
}`) as unknown as TypedDocumentString<HistoryQuery, HistoryQueryVariables>;
export const LogDocument = new TypedDocumentString(`
    query Log($tenantId: ID!) {
  log(tenantId: $tenantId) {
    head
  }
}
    `) as unknown as TypedDocumentString<LogQuery, LogQueryVariables>;
export const EventsDocument = new TypedDocumentString(`
    subscription Events($tenantId: ID!, $nodeId: ID, $types: [String!], $after: Cursor!) {
  nodeEvents(tenantId: $tenantId, nodeId: $nodeId, types: $types, after: $after) {
    ...EventLine
  }
}
    fragment EventLine on Event {
  __typename
  id
  cursor
  type
  at
  nodeId
  actor
  reason
  node {
    id
    hostname
  }
  ... on NodeCordonEvent {
    until
    cancelledDrainId
  }
  ... on NodeDraining {
    drainId
    deadline
  }
  ... on NodeDrained {
    drainId
    confirmedByNode
  }
  ... on NodeTaintEvent {
    taintsAdded
    taintsRemoved
  }
  ... on NodeLabelEvent {
    labelsSet {
      key
      value
    }
    labelsRemoved {
      key
      value
    }
    labelsDisplaced {
      key
      value
    }
  }
  ... on NodeJoinEvent {
    generation
  }
  ... on NodeAdoptionEvent {
    checks
  }
  ... on NodeConditionEvent {
    condition
    message
  }
  ... on NodeSessionEvent {
    gateway
    cause
    lastSeen
  }
  ... on ReservationEvent {
    reservationId
    startsAt
    endsAt
    deviceUuids
  }
  ... on AllocationEvent {
    reservationId
  }
  ... on CertificateSecurityEvent {
    serial
    claimedNodeId
  }
  ... on JoinTokenSecurityEvent {
    joinTokenId
    hostname
    refusal
  }
  ... on GenericEvent {
    data
  }
}`) as unknown as TypedDocumentString<EventsSubscription, EventsSubscriptionVariables>;
export const NodeDetailDocument = new TypedDocumentString(`
    query NodeDetail($tenantId: ID!, $nodeId: ID!) {
  nodes(
    tenantId: $tenantId
    filter: {nodeIds: [$nodeId], includeDeleted: true}
    first: 1
  ) {
    nodes {
      ...NodeRow
    }
    asOf
  }
  node(tenantId: $tenantId, nodeId: $nodeId) {
    id
    version
    connectivity
    liveAllocationCount
    key
    tenantId
    createdAt
    identityGeneration
    labels {
      key
      value
      source
    }
    session {
      gateway
      since
      endedAt
      agentVersion
      bootId
      clockSkewMs
    }
    checks {
      name
      status
      message
      evidence
      durationMs
      startedAt
      endedAt
    }
    drain {
      id
      endedAllocationCount
      blockers {
        ...AllocationLine
      }
    }
    lastDrain {
      id
      state
      reason
      by
      startedAt
      endedAt
      endedBy
      cause
      endedAllocationCount
      confirmedByNode
    }
    allocations(live: false, first: 50) {
      nodes {
        ...AllocationLine
      }
      pageInfo {
        hasNextPage
        endCursor
      }
    }
    devices {
      uuid
      kind
      slot
      model
      memoryBytes
      serial
      pciAddress
      missingSince
      held
      inUse
    }
    storageRoots {
      path
      uuid
      device
      fsType
      sizeBytes
      missingSince
    }
    scalarResources {
      name
      amount
      unit
    }
    inventory {
      reportedAt
      stale
      os
      kernel
      vendor
      model
      serial
      cpuModel
      cpuArch
      cpuCores
      cpuThreads
      memoryBytes
      gpuNote
    }
    certificates(live: false, first: 20) {
      nodes {
        serial
        state
        generation
        keyFingerprint
        issuedAt
        notAfter
        firstUsedAt
        endedAt
        endedBy
        reason
      }
      pageInfo {
        hasNextPage
      }
    }
  }
}
    fragment NodeRow on ComputeNode {
  id
  hostname
  version
  pool {
    id
    name
  }
  provisionState
  failure {
    phase
    message
    at
  }
  cordoned
  cordon {
    reason
    by
    at
    until
    overdue
  }
  noScheduleReasons
  maintenance
  connectivity
  connectivitySince
  deletedAt
  lastSeen
  placeableFor
  statusSentence
  outSince
  liveAllocationCount
  holds {
    reason
    owner
    by
    message
    since
  }
  drain {
    id
    state
    reason
    by
    startedAt
    endedAt
    expectedAt
    deadline
    overdue
    confirmedByNode
  }
  controls {
    control
    action
    enabled
    because
  }
}
fragment AllocationLine on Allocation {
  id
  reservationId
  tenantId
  devices
  live
  future
  startsAt
  endsAt
  releasedAt
  endedAt
}`) as unknown as TypedDocumentString<NodeDetailQuery, NodeDetailQueryVariables>;
export const AllocationsDocument = new TypedDocumentString(`
    query Allocations($tenantId: ID!, $nodeId: ID!, $after: Cursor) {
  node(tenantId: $tenantId, nodeId: $nodeId) {
    id
    allocations(live: false, first: 100, after: $after) {
      nodes {
        ...AllocationLine
      }
      pageInfo {
        hasNextPage
        endCursor
      }
    }
  }
}
    fragment AllocationLine on Allocation {
  id
  reservationId
  tenantId
  devices
  live
  future
  startsAt
  endsAt
  releasedAt
  endedAt
}`) as unknown as TypedDocumentString<AllocationsQuery, AllocationsQueryVariables>;