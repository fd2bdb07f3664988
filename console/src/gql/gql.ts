/* eslint-disable */
import * as types from './graphql';



/**
 * Map of all GraphQL operations in the project.
 *
 * This map has several performance disadvantages:
 * 1. It is not tree-shakeable, so it will include all operations in the project.
 * 2. It is not minifiable, so the string of a GraphQL query will be multiple times inside the bundle.
 * 3. It does not support dead code elimination, so it will add unused operations.
 *
 * Therefore it is highly recommended to use the babel or swc plugin for production.
 * Learn more about it here: https://the-guild.dev/graphql/codegen/plugins/presets/preset-client#reducing-bundle-size
 */
type Documents = {
    "\n\tfragment NodeRow on ComputeNode {\n\t\tid\n\t\thostname\n\t\tversion\n\t\tpool {\n\t\t\tid\n\t\t\tname\n\t\t}\n\t\tprovisionState\n\t\tfailure {\n\t\t\tphase\n\t\t\tmessage\n\t\t\tat\n\t\t}\n\t\tcordoned\n\t\tcordon {\n\t\t\treason\n\t\t\tby\n\t\t\tat\n\t\t}\n\t\tnoScheduleReasons\n\t\tmaintenance\n\t\tconnectivity\n\t\tconnectivitySince\n\t\tlastSeen\n\t\tplaceableFor\n\t\tstatusSentence\n\t\toutSince\n\t\tliveAllocationCount\n\t\tholds {\n\t\t\treason\n\t\t\towner\n\t\t\tby\n\t\t\tmessage\n\t\t\tsince\n\t\t}\n\t\tdrain {\n\t\t\tid\n\t\t\tstate\n\t\t\treason\n\t\t\tby\n\t\t\tstartedAt\n\t\t\tendedAt\n\t\t\texpectedAt\n\t\t\tconfirmedByNode\n\t\t\tblockers {\n\t\t\t\tid\n\t\t\t\treservationId\n\t\t\t\ttenantId\n\t\t\t\tstartsAt\n\t\t\t\tendsAt\n\t\t\t\tfuture\n\t\t\t}\n\t\t}\n\t\tcontrols {\n\t\t\tcontrol\n\t\t\taction\n\t\t\tenabled\n\t\t\tbecause\n\t\t}\n\t}\n": typeof types.NodeRowFragmentDoc,
    "\n\tfragment EventLine on Event {\n\t\t__typename\n\t\tid\n\t\tcursor\n\t\ttype\n\t\tat\n\t\tnodeId\n\t\tactor\n\t\treason\n\t\t... on NodeCordonEvent {\n\t\t\tcancelledDrainId\n\t\t}\n\t\t... on NodeDraining {\n\t\t\tdrainId\n\t\t}\n\t\t... on NodeDrained {\n\t\t\tdrainId\n\t\t\tconfirmedByNode\n\t\t}\n\t\t... on GenericEvent {\n\t\t\tdata\n\t\t}\n\t}\n": typeof types.EventLineFragmentDoc,
    "\n\tquery Viewer {\n\t\tviewer {\n\t\t\tname\n\t\t\ttenants {\n\t\t\t\tid\n\t\t\t}\n\t\t}\n\t}\n": typeof types.ViewerDocument,
    "\n\tquery Pools($tenantId: ID!) {\n\t\tpools(tenantId: $tenantId) {\n\t\t\tid\n\t\t\tname\n\t\t}\n\t}\n": typeof types.PoolsDocument,
    "\n\tquery Nodes($tenantId: ID!, $filter: NodeFilter, $first: Int!, $after: Cursor) {\n\t\tnodes(tenantId: $tenantId, filter: $filter, first: $first, after: $after) {\n\t\t\tnodes {\n\t\t\t\t...NodeRow\n\t\t\t}\n\t\t\tpageInfo {\n\t\t\t\thasNextPage\n\t\t\t\tendCursor\n\t\t\t}\n\t\t\ttotalCount\n\t\t\tasOf\n\t\t}\n\t}\n": typeof types.NodesDocument,
    "\n\tquery NodeRowById($tenantId: ID!, $nodeId: ID!) {\n\t\tnode(tenantId: $tenantId, nodeId: $nodeId) {\n\t\t\t...NodeRow\n\t\t}\n\t}\n": typeof types.NodeRowByIdDocument,
    "\n\tquery NodeDetail($tenantId: ID!, $nodeId: ID!) {\n\t\tnode(tenantId: $tenantId, nodeId: $nodeId) {\n\t\t\t...NodeRow\n\t\t\tkey\n\t\t\ttenantId\n\t\t\tcreatedAt\n\t\t\tidentityGeneration\n\t\t\tlabels {\n\t\t\t\tkey\n\t\t\t\tvalue\n\t\t\t\tsource\n\t\t\t}\n\t\t\tsession {\n\t\t\t\tgateway\n\t\t\t\tsince\n\t\t\t\tendedAt\n\t\t\t\tagentVersion\n\t\t\t\tbootId\n\t\t\t\tclockSkewMs\n\t\t\t}\n\t\t\tlastDrain {\n\t\t\t\tid\n\t\t\t\tstate\n\t\t\t\treason\n\t\t\t\tby\n\t\t\t\tstartedAt\n\t\t\t\tendedAt\n\t\t\t\tendedBy\n\t\t\t\tcause\n\t\t\t\tconfirmedByNode\n\t\t\t}\n\t\t\tallocations(first: 50) {\n\t\t\t\tnodes {\n\t\t\t\t\tid\n\t\t\t\t\treservationId\n\t\t\t\t\ttenantId\n\t\t\t\t\tstartsAt\n\t\t\t\t\tendsAt\n\t\t\t\t\tfuture\n\t\t\t\t}\n\t\t\t\tpageInfo {\n\t\t\t\t\thasNextPage\n\t\t\t\t}\n\t\t\t}\n\t\t\tinventory {\n\t\t\t\treportedAt\n\t\t\t\tstale\n\t\t\t\tos\n\t\t\t\tkernel\n\t\t\t\tvendor\n\t\t\t\tmodel\n\t\t\t\tserial\n\t\t\t\tcpuModel\n\t\t\t\tcpuArch\n\t\t\t\tcpuCores\n\t\t\t\tcpuThreads\n\t\t\t\tmemoryBytes\n\t\t\t\tgpus {\n\t\t\t\t\tuuid\n\t\t\t\t\tmodel\n\t\t\t\t\tmemoryBytes\n\t\t\t\t}\n\t\t\t\tgpuNote\n\t\t\t\tstorageRoots {\n\t\t\t\t\tpath\n\t\t\t\t\tfsType\n\t\t\t\t\tsizeBytes\n\t\t\t\t}\n\t\t\t}\n\t\t}\n\t}\n": typeof types.NodeDetailDocument,
    "\n\tquery NodeHistory($tenantId: ID!, $nodeId: ID!, $after: Cursor) {\n\t\tevents(tenantId: $tenantId, nodeId: $nodeId, first: 30, after: $after) {\n\t\t\tnodes {\n\t\t\t\t...EventLine\n\t\t\t}\n\t\t\tpageInfo {\n\t\t\t\thasNextPage\n\t\t\t\tendCursor\n\t\t\t}\n\t\t}\n\t}\n": typeof types.NodeHistoryDocument,
    "\n\tsubscription NodeEvents($tenantId: ID!, $after: Cursor) {\n\t\tnodeEvents(tenantId: $tenantId, after: $after) {\n\t\t\t...EventLine\n\t\t\tnode {\n\t\t\t\t...NodeRow\n\t\t\t}\n\t\t}\n\t}\n": typeof types.NodeEventsDocument,
    "\n\tmutation Cordon($input: NodeCordonInput!) {\n\t\tnodeCordon(input: $input) {\n\t\t\tnode {\n\t\t\t\t...NodeRow\n\t\t\t}\n\t\t\tchanged\n\t\t}\n\t}\n": typeof types.CordonDocument,
    "\n\tmutation Uncordon($input: NodeUncordonInput!) {\n\t\tnodeUncordon(input: $input) {\n\t\t\tnode {\n\t\t\t\t...NodeRow\n\t\t\t}\n\t\t\tchanged\n\t\t}\n\t}\n": typeof types.UncordonDocument,
    "\n\tmutation Drain($input: NodeDrainInput!) {\n\t\tnodeDrain(input: $input) {\n\t\t\tnode {\n\t\t\t\t...NodeRow\n\t\t\t}\n\t\t\tchanged\n\t\t}\n\t}\n": typeof types.DrainDocument,
};
const documents: Documents = {
    "\n\tfragment NodeRow on ComputeNode {\n\t\tid\n\t\thostname\n\t\tversion\n\t\tpool {\n\t\t\tid\n\t\t\tname\n\t\t}\n\t\tprovisionState\n\t\tfailure {\n\t\t\tphase\n\t\t\tmessage\n\t\t\tat\n\t\t}\n\t\tcordoned\n\t\tcordon {\n\t\t\treason\n\t\t\tby\n\t\t\tat\n\t\t}\n\t\tnoScheduleReasons\n\t\tmaintenance\n\t\tconnectivity\n\t\tconnectivitySince\n\t\tlastSeen\n\t\tplaceableFor\n\t\tstatusSentence\n\t\toutSince\n\t\tliveAllocationCount\n\t\tholds {\n\t\t\treason\n\t\t\towner\n\t\t\tby\n\t\t\tmessage\n\t\t\tsince\n\t\t}\n\t\tdrain {\n\t\t\tid\n\t\t\tstate\n\t\t\treason\n\t\t\tby\n\t\t\tstartedAt\n\t\t\tendedAt\n\t\t\texpectedAt\n\t\t\tconfirmedByNode\n\t\t\tblockers {\n\t\t\t\tid\n\t\t\t\treservationId\n\t\t\t\ttenantId\n\t\t\t\tstartsAt\n\t\t\t\tendsAt\n\t\t\t\tfuture\n\t\t\t}\n\t\t}\n\t\tcontrols {\n\t\t\tcontrol\n\t\t\taction\n\t\t\tenabled\n\t\t\tbecause\n\t\t}\n\t}\n": types.NodeRowFragmentDoc,
    "\n\tfragment EventLine on Event {\n\t\t__typename\n\t\tid\n\t\tcursor\n\t\ttype\n\t\tat\n\t\tnodeId\n\t\tactor\n\t\treason\n\t\t... on NodeCordonEvent {\n\t\t\tcancelledDrainId\n\t\t}\n\t\t... on NodeDraining {\n\t\t\tdrainId\n\t\t}\n\t\t... on NodeDrained {\n\t\t\tdrainId\n\t\t\tconfirmedByNode\n\t\t}\n\t\t... on GenericEvent {\n\t\t\tdata\n\t\t}\n\t}\n": types.EventLineFragmentDoc,
    "\n\tquery Viewer {\n\t\tviewer {\n\t\t\tname\n\t\t\ttenants {\n\t\t\t\tid\n\t\t\t}\n\t\t}\n\t}\n": types.ViewerDocument,
    "\n\tquery Pools($tenantId: ID!) {\n\t\tpools(tenantId: $tenantId) {\n\t\t\tid\n\t\t\tname\n\t\t}\n\t}\n": types.PoolsDocument,
    "\n\tquery Nodes($tenantId: ID!, $filter: NodeFilter, $first: Int!, $after: Cursor) {\n\t\tnodes(tenantId: $tenantId, filter: $filter, first: $first, after: $after) {\n\t\t\tnodes {\n\t\t\t\t...NodeRow\n\t\t\t}\n\t\t\tpageInfo {\n\t\t\t\thasNextPage\n\t\t\t\tendCursor\n\t\t\t}\n\t\t\ttotalCount\n\t\t\tasOf\n\t\t}\n\t}\n": types.NodesDocument,
    "\n\tquery NodeRowById($tenantId: ID!, $nodeId: ID!) {\n\t\tnode(tenantId: $tenantId, nodeId: $nodeId) {\n\t\t\t...NodeRow\n\t\t}\n\t}\n": types.NodeRowByIdDocument,
    "\n\tquery NodeDetail($tenantId: ID!, $nodeId: ID!) {\n\t\tnode(tenantId: $tenantId, nodeId: $nodeId) {\n\t\t\t...NodeRow\n\t\t\tkey\n\t\t\ttenantId\n\t\t\tcreatedAt\n\t\t\tidentityGeneration\n\t\t\tlabels {\n\t\t\t\tkey\n\t\t\t\tvalue\n\t\t\t\tsource\n\t\t\t}\n\t\t\tsession {\n\t\t\t\tgateway\n\t\t\t\tsince\n\t\t\t\tendedAt\n\t\t\t\tagentVersion\n\t\t\t\tbootId\n\t\t\t\tclockSkewMs\n\t\t\t}\n\t\t\tlastDrain {\n\t\t\t\tid\n\t\t\t\tstate\n\t\t\t\treason\n\t\t\t\tby\n\t\t\t\tstartedAt\n\t\t\t\tendedAt\n\t\t\t\tendedBy\n\t\t\t\tcause\n\t\t\t\tconfirmedByNode\n\t\t\t}\n\t\t\tallocations(first: 50) {\n\t\t\t\tnodes {\n\t\t\t\t\tid\n\t\t\t\t\treservationId\n\t\t\t\t\ttenantId\n\t\t\t\t\tstartsAt\n\t\t\t\t\tendsAt\n\t\t\t\t\tfuture\n\t\t\t\t}\n\t\t\t\tpageInfo {\n\t\t\t\t\thasNextPage\n\t\t\t\t}\n\t\t\t}\n\t\t\tinventory {\n\t\t\t\treportedAt\n\t\t\t\tstale\n\t\t\t\tos\n\t\t\t\tkernel\n\t\t\t\tvendor\n\t\t\t\tmodel\n\t\t\t\tserial\n\t\t\t\tcpuModel\n\t\t\t\tcpuArch\n\t\t\t\tcpuCores\n\t\t\t\tcpuThreads\n\t\t\t\tmemoryBytes\n\t\t\t\tgpus {\n\t\t\t\t\tuuid\n\t\t\t\t\tmodel\n\t\t\t\t\tmemoryBytes\n\t\t\t\t}\n\t\t\t\tgpuNote\n\t\t\t\tstorageRoots {\n\t\t\t\t\tpath\n\t\t\t\t\tfsType\n\t\t\t\t\tsizeBytes\n\t\t\t\t}\n\t\t\t}\n\t\t}\n\t}\n": types.NodeDetailDocument,
    "\n\tquery NodeHistory($tenantId: ID!, $nodeId: ID!, $after: Cursor) {\n\t\tevents(tenantId: $tenantId, nodeId: $nodeId, first: 30, after: $after) {\n\t\t\tnodes {\n\t\t\t\t...EventLine\n\t\t\t}\n\t\t\tpageInfo {\n\t\t\t\thasNextPage\n\t\t\t\tendCursor\n\t\t\t}\n\t\t}\n\t}\n": types.NodeHistoryDocument,
    "\n\tsubscription NodeEvents($tenantId: ID!, $after: Cursor) {\n\t\tnodeEvents(tenantId: $tenantId, after: $after) {\n\t\t\t...EventLine\n\t\t\tnode {\n\t\t\t\t...NodeRow\n\t\t\t}\n\t\t}\n\t}\n": types.NodeEventsDocument,
    "\n\tmutation Cordon($input: NodeCordonInput!) {\n\t\tnodeCordon(input: $input) {\n\t\t\tnode {\n\t\t\t\t...NodeRow\n\t\t\t}\n\t\t\tchanged\n\t\t}\n\t}\n": types.CordonDocument,
    "\n\tmutation Uncordon($input: NodeUncordonInput!) {\n\t\tnodeUncordon(input: $input) {\n\t\t\tnode {\n\t\t\t\t...NodeRow\n\t\t\t}\n\t\t\tchanged\n\t\t}\n\t}\n": types.UncordonDocument,
    "\n\tmutation Drain($input: NodeDrainInput!) {\n\t\tnodeDrain(input: $input) {\n\t\t\tnode {\n\t\t\t\t...NodeRow\n\t\t\t}\n\t\t\tchanged\n\t\t}\n\t}\n": types.DrainDocument,
};

/**
 * The graphql function is used to parse GraphQL queries into a document that can be used by GraphQL clients.
 */
export function graphql(source: "\n\tfragment NodeRow on ComputeNode {\n\t\tid\n\t\thostname\n\t\tversion\n\t\tpool {\n\t\t\tid\n\t\t\tname\n\t\t}\n\t\tprovisionState\n\t\tfailure {\n\t\t\tphase\n\t\t\tmessage\n\t\t\tat\n\t\t}\n\t\tcordoned\n\t\tcordon {\n\t\t\treason\n\t\t\tby\n\t\t\tat\n\t\t}\n\t\tnoScheduleReasons\n\t\tmaintenance\n\t\tconnectivity\n\t\tconnectivitySince\n\t\tlastSeen\n\t\tplaceableFor\n\t\tstatusSentence\n\t\toutSince\n\t\tliveAllocationCount\n\t\tholds {\n\t\t\treason\n\t\t\towner\n\t\t\tby\n\t\t\tmessage\n\t\t\tsince\n\t\t}\n\t\tdrain {\n\t\t\tid\n\t\t\tstate\n\t\t\treason\n\t\t\tby\n\t\t\tstartedAt\n\t\t\tendedAt\n\t\t\texpectedAt\n\t\t\tconfirmedByNode\n\t\t\tblockers {\n\t\t\t\tid\n\t\t\t\treservationId\n\t\t\t\ttenantId\n\t\t\t\tstartsAt\n\t\t\t\tendsAt\n\t\t\t\tfuture\n\t\t\t}\n\t\t}\n\t\tcontrols {\n\t\t\tcontrol\n\t\t\taction\n\t\t\tenabled\n\t\t\tbecause\n\t\t}\n\t}\n"): typeof import('./graphql').NodeRowFragmentDoc;
/**
 * The graphql function is used to parse GraphQL queries into a document that can be used by GraphQL clients.
 */
export function graphql(source: "\n\tfragment EventLine on Event {\n\t\t__typename\n\t\tid\n\t\tcursor\n\t\ttype\n\t\tat\n\t\tnodeId\n\t\tactor\n\t\treason\n\t\t... on NodeCordonEvent {\n\t\t\tcancelledDrainId\n\t\t}\n\t\t... on NodeDraining {\n\t\t\tdrainId\n\t\t}\n\t\t... on NodeDrained {\n\t\t\tdrainId\n\t\t\tconfirmedByNode\n\t\t}\n\t\t... on GenericEvent {\n\t\t\tdata\n\t\t}\n\t}\n"): typeof import('./graphql').EventLineFragmentDoc;
/**
 * The graphql function is used to parse GraphQL queries into a document that can be used by GraphQL clients.
 */
export function graphql(source: "\n\tquery Viewer {\n\t\tviewer {\n\t\t\tname\n\t\t\ttenants {\n\t\t\t\tid\n\t\t\t}\n\t\t}\n\t}\n"): typeof import('./graphql').ViewerDocument;
/**
 * The graphql function is used to parse GraphQL queries into a document that can be used by GraphQL clients.
 */
export function graphql(source: "\n\tquery Pools($tenantId: ID!) {\n\t\tpools(tenantId: $tenantId) {\n\t\t\tid\n\t\t\tname\n\t\t}\n\t}\n"): typeof import('./graphql').PoolsDocument;
/**
 * The graphql function is used to parse GraphQL queries into a document that can be used by GraphQL clients.
 */
export function graphql(source: "\n\tquery Nodes($tenantId: ID!, $filter: NodeFilter, $first: Int!, $after: Cursor) {\n\t\tnodes(tenantId: $tenantId, filter: $filter, first: $first, after: $after) {\n\t\t\tnodes {\n\t\t\t\t...NodeRow\n\t\t\t}\n\t\t\tpageInfo {\n\t\t\t\thasNextPage\n\t\t\t\tendCursor\n\t\t\t}\n\t\t\ttotalCount\n\t\t\tasOf\n\t\t}\n\t}\n"): typeof import('./graphql').NodesDocument;
/**
 * The graphql function is used to parse GraphQL queries into a document that can be used by GraphQL clients.
 */
export function graphql(source: "\n\tquery NodeRowById($tenantId: ID!, $nodeId: ID!) {\n\t\tnode(tenantId: $tenantId, nodeId: $nodeId) {\n\t\t\t...NodeRow\n\t\t}\n\t}\n"): typeof import('./graphql').NodeRowByIdDocument;
/**
 * The graphql function is used to parse GraphQL queries into a document that can be used by GraphQL clients.
 */
export function graphql(source: "\n\tquery NodeDetail($tenantId: ID!, $nodeId: ID!) {\n\t\tnode(tenantId: $tenantId, nodeId: $nodeId) {\n\t\t\t...NodeRow\n\t\t\tkey\n\t\t\ttenantId\n\t\t\tcreatedAt\n\t\t\tidentityGeneration\n\t\t\tlabels {\n\t\t\t\tkey\n\t\t\t\tvalue\n\t\t\t\tsource\n\t\t\t}\n\t\t\tsession {\n\t\t\t\tgateway\n\t\t\t\tsince\n\t\t\t\tendedAt\n\t\t\t\tagentVersion\n\t\t\t\tbootId\n\t\t\t\tclockSkewMs\n\t\t\t}\n\t\t\tlastDrain {\n\t\t\t\tid\n\t\t\t\tstate\n\t\t\t\treason\n\t\t\t\tby\n\t\t\t\tstartedAt\n\t\t\t\tendedAt\n\t\t\t\tendedBy\n\t\t\t\tcause\n\t\t\t\tconfirmedByNode\n\t\t\t}\n\t\t\tallocations(first: 50) {\n\t\t\t\tnodes {\n\t\t\t\t\tid\n\t\t\t\t\treservationId\n\t\t\t\t\ttenantId\n\t\t\t\t\tstartsAt\n\t\t\t\t\tendsAt\n\t\t\t\t\tfuture\n\t\t\t\t}\n\t\t\t\tpageInfo {\n\t\t\t\t\thasNextPage\n\t\t\t\t}\n\t\t\t}\n\t\t\tinventory {\n\t\t\t\treportedAt\n\t\t\t\tstale\n\t\t\t\tos\n\t\t\t\tkernel\n\t\t\t\tvendor\n\t\t\t\tmodel\n\t\t\t\tserial\n\t\t\t\tcpuModel\n\t\t\t\tcpuArch\n\t\t\t\tcpuCores\n\t\t\t\tcpuThreads\n\t\t\t\tmemoryBytes\n\t\t\t\tgpus {\n\t\t\t\t\tuuid\n\t\t\t\t\tmodel\n\t\t\t\t\tmemoryBytes\n\t\t\t\t}\n\t\t\t\tgpuNote\n\t\t\t\tstorageRoots {\n\t\t\t\t\tpath\n\t\t\t\t\tfsType\n\t\t\t\t\tsizeBytes\n\t\t\t\t}\n\t\t\t}\n\t\t}\n\t}\n"): typeof import('./graphql').NodeDetailDocument;
/**
 * The graphql function is used to parse GraphQL queries into a document that can be used by GraphQL clients.
 */
export function graphql(source: "\n\tquery NodeHistory($tenantId: ID!, $nodeId: ID!, $after: Cursor) {\n\t\tevents(tenantId: $tenantId, nodeId: $nodeId, first: 30, after: $after) {\n\t\t\tnodes {\n\t\t\t\t...EventLine\n\t\t\t}\n\t\t\tpageInfo {\n\t\t\t\thasNextPage\n\t\t\t\tendCursor\n\t\t\t}\n\t\t}\n\t}\n"): typeof import('./graphql').NodeHistoryDocument;
/**
 * The graphql function is used to parse GraphQL queries into a document that can be used by GraphQL clients.
 */
export function graphql(source: "\n\tsubscription NodeEvents($tenantId: ID!, $after: Cursor) {\n\t\tnodeEvents(tenantId: $tenantId, after: $after) {\n\t\t\t...EventLine\n\t\t\tnode {\n\t\t\t\t...NodeRow\n\t\t\t}\n\t\t}\n\t}\n"): typeof import('./graphql').NodeEventsDocument;
/**
 * The graphql function is used to parse GraphQL queries into a document that can be used by GraphQL clients.
 */
export function graphql(source: "\n\tmutation Cordon($input: NodeCordonInput!) {\n\t\tnodeCordon(input: $input) {\n\t\t\tnode {\n\t\t\t\t...NodeRow\n\t\t\t}\n\t\t\tchanged\n\t\t}\n\t}\n"): typeof import('./graphql').CordonDocument;
/**
 * The graphql function is used to parse GraphQL queries into a document that can be used by GraphQL clients.
 */
export function graphql(source: "\n\tmutation Uncordon($input: NodeUncordonInput!) {\n\t\tnodeUncordon(input: $input) {\n\t\t\tnode {\n\t\t\t\t...NodeRow\n\t\t\t}\n\t\t\tchanged\n\t\t}\n\t}\n"): typeof import('./graphql').UncordonDocument;
/**
 * The graphql function is used to parse GraphQL queries into a document that can be used by GraphQL clients.
 */
export function graphql(source: "\n\tmutation Drain($input: NodeDrainInput!) {\n\t\tnodeDrain(input: $input) {\n\t\t\tnode {\n\t\t\t\t...NodeRow\n\t\t\t}\n\t\t\tchanged\n\t\t}\n\t}\n"): typeof import('./graphql').DrainDocument;


export function graphql(source: string) {
  return (documents as any)[source] ?? {};
}
