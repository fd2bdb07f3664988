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
    "\n\tmutation Cordon($input: NodeCordonInput!) {\n\t\tnodeCordon(input: $input) {\n\t\t\tnode {\n\t\t\t\t...NodeRow\n\t\t\t}\n\t\t\tchanged\n\t\t\twarnings\n\t\t}\n\t}\n": typeof types.CordonDocument,
    "\n\tmutation Uncordon($input: NodeUncordonInput!) {\n\t\tnodeUncordon(input: $input) {\n\t\t\tnode {\n\t\t\t\t...NodeRow\n\t\t\t}\n\t\t\tchanged\n\t\t\twarnings\n\t\t}\n\t}\n": typeof types.UncordonDocument,
    "\n\tmutation Drain($input: NodeDrainInput!) {\n\t\tnodeDrain(input: $input) {\n\t\t\tnode {\n\t\t\t\t...NodeRow\n\t\t\t}\n\t\t\tchanged\n\t\t\twarnings\n\t\t}\n\t}\n": typeof types.DrainDocument,
    "\n\tmutation Taint($input: NodeTaintInput!) {\n\t\tnodeTaint(input: $input) {\n\t\t\tnode {\n\t\t\t\t...NodeRow\n\t\t\t}\n\t\t\tchanged\n\t\t\twarnings\n\t\t}\n\t}\n": typeof types.TaintDocument,
    "\n\tmutation Label($input: NodeLabelInput!) {\n\t\tnodeLabel(input: $input) {\n\t\t\tnode {\n\t\t\t\t...NodeRow\n\t\t\t}\n\t\t\tchanged\n\t\t\twarnings\n\t\t}\n\t}\n": typeof types.LabelDocument,
    "\n\tmutation Adopt($input: NodeAdoptInput!) {\n\t\tnodeAdopt(input: $input) {\n\t\t\tnode {\n\t\t\t\t...NodeRow\n\t\t\t}\n\t\t\tchanged\n\t\t\twarnings\n\t\t}\n\t}\n": typeof types.AdoptDocument,
    "\n\tmutation Delete($input: NodeDeleteInput!) {\n\t\tnodeDelete(input: $input) {\n\t\t\tnodeId\n\t\t\tdeleted\n\t\t\twarnings\n\t\t}\n\t}\n": typeof types.DeleteDocument,
    "\n\tquery Labels($tenantId: ID!, $nodeId: ID!) {\n\t\tnode(tenantId: $tenantId, nodeId: $nodeId) {\n\t\t\tid\n\t\t\tversion\n\t\t\tlabels {\n\t\t\t\tkey\n\t\t\t\tvalue\n\t\t\t\tsource\n\t\t\t}\n\t\t}\n\t}\n": typeof types.LabelsDocument,
    "\n\tquery DrainPlan($tenantId: ID!, $nodeId: ID!) {\n\t\tdrainPlan(tenantId: $tenantId, nodeId: $nodeId) {\n\t\t\tempty\n\t\t\tliveAllocationCount\n\t\t\texpectedAt\n\t\t\tblockers {\n\t\t\t\t...AllocationLine\n\t\t\t}\n\t\t}\n\t}\n": typeof types.DrainPlanDocument,
    "\n\tfragment NodeRow on ComputeNode {\n\t\tid\n\t\thostname\n\t\tversion\n\t\tpool {\n\t\t\tid\n\t\t\tname\n\t\t}\n\t\tprovisionState\n\t\tfailure {\n\t\t\tphase\n\t\t\tmessage\n\t\t\tat\n\t\t}\n\t\tcordoned\n\t\tcordon {\n\t\t\treason\n\t\t\tby\n\t\t\tat\n\t\t\tuntil\n\t\t\toverdue\n\t\t}\n\t\tnoScheduleReasons\n\t\tmaintenance\n\t\tconnectivity\n\t\tconnectivitySince\n\t\tdeletedAt\n\t\tlastSeen\n\t\tplaceableFor\n\t\tstatusSentence\n\t\toutSince\n\t\tliveAllocationCount\n\t\tholds {\n\t\t\treason\n\t\t\towner\n\t\t\tby\n\t\t\tmessage\n\t\t\tsince\n\t\t}\n\t\tdrain {\n\t\t\tid\n\t\t\tstate\n\t\t\treason\n\t\t\tby\n\t\t\tstartedAt\n\t\t\tendedAt\n\t\t\texpectedAt\n\t\t\tdeadline\n\t\t\toverdue\n\t\t\tconfirmedByNode\n\t\t}\n\t\tcontrols {\n\t\t\tcontrol\n\t\t\taction\n\t\t\tenabled\n\t\t\tbecause\n\t\t}\n\t}\n": typeof types.NodeRowFragmentDoc,
    "\n\tquery Viewer {\n\t\tviewer {\n\t\t\tname\n\t\t\ttenants {\n\t\t\t\tid\n\t\t\t}\n\t\t}\n\t}\n": typeof types.ViewerDocument,
    "\n\tquery Pools($tenantId: ID!) {\n\t\tpools(tenantId: $tenantId) {\n\t\t\tid\n\t\t\tname\n\t\t}\n\t}\n": typeof types.PoolsDocument,
    "\n\tquery Nodes($tenantId: ID!, $filter: NodeFilter, $orderBy: NodeOrder!, $first: Int!, $after: Cursor) {\n\t\tnodes(tenantId: $tenantId, filter: $filter, orderBy: $orderBy, first: $first, after: $after) {\n\t\t\tnodes {\n\t\t\t\t...NodeRow\n\t\t\t}\n\t\t\tpageInfo {\n\t\t\t\thasNextPage\n\t\t\t\tendCursor\n\t\t\t}\n\t\t\ttotalCount\n\t\t\tasOf\n\t\t}\n\t}\n": typeof types.NodesDocument,
    "\n\tsubscription Rows($tenantId: ID!, $after: Cursor!, $nodeIds: [ID!]!) {\n\t\tnodeChanges(tenantId: $tenantId, after: $after, nodeIds: $nodeIds, maxPerSecond: 4) {\n\t\t\tchanged {\n\t\t\t\t...NodeRow\n\t\t\t}\n\t\t\tremoved\n\t\t\tasOf\n\t\t}\n\t}\n": typeof types.RowsDocument,
    "\n\tsubscription Members($tenantId: ID!, $after: Cursor!, $filter: NodeFilter) {\n\t\tnodeChanges(tenantId: $tenantId, after: $after, filter: $filter, maxPerSecond: 2) {\n\t\t\tchanged {\n\t\t\t\tid\n\t\t\t}\n\t\t\tremoved\n\t\t\tasOf\n\t\t}\n\t}\n": typeof types.MembersDocument,
    "\n\tsubscription Fleet($tenantId: ID!) {\n\t\tfleetSummary(tenantId: $tenantId) {\n\t\t\ttotal\n\t\t\tconnectivity {\n\t\t\t\tconnectivity\n\t\t\t\tcount\n\t\t\t}\n\t\t\tcordoned\n\t\t\tdraining\n\t\t\tmaintenance\n\t\t}\n\t}\n": typeof types.FleetDocument,
    "\n\tsubscription Count($tenantId: ID!, $filter: NodeFilter) {\n\t\tfleetSummary(tenantId: $tenantId, filter: $filter) {\n\t\t\ttotal\n\t\t}\n\t}\n": typeof types.CountDocument,
    "\n\tmutation Select($input: NodeSelectionCreateInput!) {\n\t\tnodeSelectionCreate(input: $input) {\n\t\t\tselection {\n\t\t\t\tid\n\t\t\t\tcount\n\t\t\t\texpiresAt\n\t\t\t}\n\t\t}\n\t}\n": typeof types.SelectDocument,
    "\n\tquery Preview(\n\t\t$tenantId: ID!\n\t\t$selectionId: ID!\n\t\t$control: NodesControl!\n\t\t$anyone: Boolean!\n\t\t$add: [String!]\n\t\t$remove: [String!]\n\t\t$set: [LabelInput!]\n\t) {\n\t\tnodeSelection(tenantId: $tenantId, selectionId: $selectionId) {\n\t\t\tid\n\t\t\tpreview(control: $control, anyone: $anyone, add: $add, remove: $remove, set: $set) {\n\t\t\t\tdone\n\t\t\t\tunchanged\n\t\t\t\trefused\n\t\t\t\tgroups {\n\t\t\t\t\toutcome\n\t\t\t\t\tcode\n\t\t\t\t\tbecause\n\t\t\t\t\tprovisionState\n\t\t\t\t\tcordoned\n\t\t\t\t\tdraining\n\t\t\t\t\tcount\n\t\t\t\t}\n\t\t\t}\n\t\t}\n\t}\n": typeof types.PreviewDocument,
    "\n\tfragment Operation on NodesOperation {\n\t\tid\n\t\tcontrol\n\t\tstate\n\t\tby\n\t\treason\n\t\tmaxPerPool\n\t\tcount\n\t\tdone\n\t\tunchanged\n\t\trefused\n\t\tleft\n\t\twaiting\n\t\tcreatedAt\n\t\tendedAt\n\t\tendedBy\n\t}\n": typeof types.OperationFragmentDoc,
    "\n\tfragment Result on NodesOperationResult {\n\t\tnodeId\n\t\toutcome\n\t\tcode\n\t\tmessage\n\t\tat\n\t\tnode {\n\t\t\tid\n\t\t\thostname\n\t\t}\n\t}\n": typeof types.ResultFragmentDoc,
    "\n\tmutation NodesCordon($input: NodesControlInput!) {\n\t\tnodesCordon(input: $input) {\n\t\t\twarnings\n\t\t\toperation {\n\t\t\t\t...Operation\n\t\t\t}\n\t\t}\n\t}\n": typeof types.NodesCordonDocument,
    "\n\tmutation NodesUncordon($input: NodesControlInput!) {\n\t\tnodesUncordon(input: $input) {\n\t\t\twarnings\n\t\t\toperation {\n\t\t\t\t...Operation\n\t\t\t}\n\t\t}\n\t}\n": typeof types.NodesUncordonDocument,
    "\n\tmutation NodesDrain($input: NodesControlInput!) {\n\t\tnodesDrain(input: $input) {\n\t\t\twarnings\n\t\t\toperation {\n\t\t\t\t...Operation\n\t\t\t}\n\t\t}\n\t}\n": typeof types.NodesDrainDocument,
    "\n\tmutation NodesTaint($input: NodesControlInput!) {\n\t\tnodesTaint(input: $input) {\n\t\t\twarnings\n\t\t\toperation {\n\t\t\t\t...Operation\n\t\t\t}\n\t\t}\n\t}\n": typeof types.NodesTaintDocument,
    "\n\tmutation NodesLabel($input: NodesControlInput!) {\n\t\tnodesLabel(input: $input) {\n\t\t\twarnings\n\t\t\toperation {\n\t\t\t\t...Operation\n\t\t\t}\n\t\t}\n\t}\n": typeof types.NodesLabelDocument,
    "\n\tmutation NodesAdopt($input: NodesControlInput!) {\n\t\tnodesAdopt(input: $input) {\n\t\t\twarnings\n\t\t\toperation {\n\t\t\t\t...Operation\n\t\t\t}\n\t\t}\n\t}\n": typeof types.NodesAdoptDocument,
    "\n\tmutation StopOperation($input: NodesOperationStopInput!) {\n\t\tnodesOperationStop(input: $input) {\n\t\t\toperation {\n\t\t\t\t...Operation\n\t\t\t}\n\t\t}\n\t}\n": typeof types.StopOperationDocument,
    "\n\tquery RunningOperations($tenantId: ID!) {\n\t\tnodesOperations(tenantId: $tenantId, active: true, first: 20) {\n\t\t\tnodes {\n\t\t\t\t...Operation\n\t\t\t}\n\t\t}\n\t}\n": typeof types.RunningOperationsDocument,
    "\n\tquery OperationResults($tenantId: ID!, $operationId: ID!, $outcomes: [NodesOutcome!], $after: Cursor) {\n\t\tnodesOperation(tenantId: $tenantId, operationId: $operationId) {\n\t\t\t...Operation\n\t\t\tresults(outcomes: $outcomes, first: 200, after: $after) {\n\t\t\t\tnodes {\n\t\t\t\t\t...Result\n\t\t\t\t}\n\t\t\t\tpageInfo {\n\t\t\t\t\thasNextPage\n\t\t\t\t\tendCursor\n\t\t\t\t}\n\t\t\t}\n\t\t}\n\t}\n": typeof types.OperationResultsDocument,
    "\n\tsubscription FollowOperation($tenantId: ID!, $operationId: ID!, $after: Cursor) {\n\t\tnodesOperation(tenantId: $tenantId, operationId: $operationId, after: $after) {\n\t\t\t...Operation\n\t\t\tcursor\n\t\t\tnewResults {\n\t\t\t\t...Result\n\t\t\t}\n\t\t}\n\t}\n": typeof types.FollowOperationDocument,
    "\n\tfragment DrainLine on Drain {\n\t\tid\n\t\tstate\n\t\treason\n\t\tby\n\t\tstartedAt\n\t\tendedAt\n\t\tendedBy\n\t\tcause\n\t\tdeadline\n\t\toverdue\n\t\texpectedAt\n\t\tendedAllocationCount\n\t\tconfirmedByNode\n\t\tnode {\n\t\t\t...NodeRow\n\t\t}\n\t}\n": typeof types.DrainLineFragmentDoc,
    "\n\tquery Drains($tenantId: ID!, $active: Boolean!, $first: Int!, $after: Cursor) {\n\t\tdrains(tenantId: $tenantId, active: $active, first: $first, after: $after) {\n\t\t\tnodes {\n\t\t\t\t...DrainLine\n\t\t\t}\n\t\t\tpageInfo {\n\t\t\t\thasNextPage\n\t\t\t\tendCursor\n\t\t\t}\n\t\t}\n\t}\n": typeof types.DrainsDocument,
    "\n\tsubscription DrainChanges($tenantId: ID!, $after: Cursor!) {\n\t\tdrainChanges(tenantId: $tenantId, after: $after) {\n\t\t\t...DrainLine\n\t\t}\n\t}\n": typeof types.DrainChangesDocument,
    "\n\tfragment EventLine on Event {\n\t\t__typename\n\t\tid\n\t\tcursor\n\t\ttype\n\t\tat\n\t\tnodeId\n\t\tactor\n\t\treason\n\t\tnode {\n\t\t\tid\n\t\t\thostname\n\t\t}\n\t\t... on NodeCordonEvent {\n\t\t\tuntil\n\t\t\tcancelledDrainId\n\t\t}\n\t\t... on NodeDraining {\n\t\t\tdrainId\n\t\t\tdeadline\n\t\t}\n\t\t... on NodeDrained {\n\t\t\tdrainId\n\t\t\tconfirmedByNode\n\t\t}\n\t\t... on NodeTaintEvent {\n\t\t\ttaintsAdded\n\t\t\ttaintsRemoved\n\t\t}\n\t\t... on NodeLabelEvent {\n\t\t\tlabelsSet {\n\t\t\t\tkey\n\t\t\t\tvalue\n\t\t\t}\n\t\t\tlabelsRemoved {\n\t\t\t\tkey\n\t\t\t\tvalue\n\t\t\t}\n\t\t\tlabelsDisplaced {\n\t\t\t\tkey\n\t\t\t\tvalue\n\t\t\t}\n\t\t}\n\t\t... on NodeJoinEvent {\n\t\t\tgeneration\n\t\t}\n\t\t... on NodeAdoptionEvent {\n\t\t\tchecks\n\t\t}\n\t\t... on NodeConditionEvent {\n\t\t\tcondition\n\t\t\tmessage\n\t\t}\n\t\t... on NodeSessionEvent {\n\t\t\tgateway\n\t\t\tcause\n\t\t\tlastSeen\n\t\t}\n\t\t... on ReservationEvent {\n\t\t\treservationId\n\t\t\tstartsAt\n\t\t\tendsAt\n\t\t\tdeviceUuids\n\t\t}\n\t\t... on AllocationEvent {\n\t\t\treservationId\n\t\t}\n\t\t... on CertificateSecurityEvent {\n\t\t\tserial\n\t\t\tclaimedNodeId\n\t\t}\n\t\t... on JoinTokenSecurityEvent {\n\t\t\tjoinTokenId\n\t\t\thostname\n\t\t\trefusal\n\t\t}\n\t\t... on GenericEvent {\n\t\t\tdata\n\t\t}\n\t}\n": typeof types.EventLineFragmentDoc,
    "\n\tquery History($tenantId: ID!, $nodeId: ID, $types: [String!], $actor: String, $first: Int!, $after: Cursor) {\n\t\tevents(tenantId: $tenantId, nodeId: $nodeId, types: $types, actor: $actor, first: $first, after: $after) {\n\t\t\tnodes {\n\t\t\t\t...EventLine\n\t\t\t}\n\t\t\tpageInfo {\n\t\t\t\thasNextPage\n\t\t\t\tendCursor\n\t\t\t}\n\t\t}\n\t}\n": typeof types.HistoryDocument,
    "\n\tquery Log($tenantId: ID!) {\n\t\tlog(tenantId: $tenantId) {\n\t\t\thead\n\t\t}\n\t}\n": typeof types.LogDocument,
    "\n\tsubscription Events($tenantId: ID!, $nodeId: ID, $types: [String!], $after: Cursor!) {\n\t\tnodeEvents(tenantId: $tenantId, nodeId: $nodeId, types: $types, after: $after) {\n\t\t\t...EventLine\n\t\t}\n\t}\n": typeof types.EventsDocument,
    "\n\tquery NodeDetail($tenantId: ID!, $nodeId: ID!) {\n\t\tnodes(tenantId: $tenantId, filter: { nodeIds: [$nodeId], includeDeleted: true }, first: 1) {\n\t\t\tnodes {\n\t\t\t\t...NodeRow\n\t\t\t}\n\t\t\tasOf\n\t\t}\n\t\tnode(tenantId: $tenantId, nodeId: $nodeId) {\n\t\t\tid\n\t\t\tversion\n\t\t\tconnectivity\n\t\t\tliveAllocationCount\n\t\t\tkey\n\t\t\ttenantId\n\t\t\tcreatedAt\n\t\t\tidentityGeneration\n\t\t\tlabels {\n\t\t\t\tkey\n\t\t\t\tvalue\n\t\t\t\tsource\n\t\t\t}\n\t\t\tsession {\n\t\t\t\tgateway\n\t\t\t\tsince\n\t\t\t\tendedAt\n\t\t\t\tagentVersion\n\t\t\t\tbootId\n\t\t\t\tclockSkewMs\n\t\t\t}\n\t\t\tchecks {\n\t\t\t\tname\n\t\t\t\tstatus\n\t\t\t\tmessage\n\t\t\t\tevidence\n\t\t\t\tdurationMs\n\t\t\t\tstartedAt\n\t\t\t\tendedAt\n\t\t\t}\n\t\t\tdrain {\n\t\t\t\tid\n\t\t\t\tendedAllocationCount\n\t\t\t\tblockers {\n\t\t\t\t\t...AllocationLine\n\t\t\t\t}\n\t\t\t}\n\t\t\tlastDrain {\n\t\t\t\tid\n\t\t\t\tstate\n\t\t\t\treason\n\t\t\t\tby\n\t\t\t\tstartedAt\n\t\t\t\tendedAt\n\t\t\t\tendedBy\n\t\t\t\tcause\n\t\t\t\tendedAllocationCount\n\t\t\t\tconfirmedByNode\n\t\t\t}\n\t\t\tallocations(live: false, first: 50) {\n\t\t\t\tnodes {\n\t\t\t\t\t...AllocationLine\n\t\t\t\t}\n\t\t\t\tpageInfo {\n\t\t\t\t\thasNextPage\n\t\t\t\t\tendCursor\n\t\t\t\t}\n\t\t\t}\n\t\t\tdevices {\n\t\t\t\tuuid\n\t\t\t\tkind\n\t\t\t\tslot\n\t\t\t\tmodel\n\t\t\t\tmemoryBytes\n\t\t\t\tserial\n\t\t\t\tpciAddress\n\t\t\t\tmissingSince\n\t\t\t\theld\n\t\t\t\tinUse\n\t\t\t}\n\t\t\tstorageRoots {\n\t\t\t\tpath\n\t\t\t\tuuid\n\t\t\t\tdevice\n\t\t\t\tfsType\n\t\t\t\tsizeBytes\n\t\t\t\tmissingSince\n\t\t\t}\n\t\t\tscalarResources {\n\t\t\t\tname\n\t\t\t\tamount\n\t\t\t\tunit\n\t\t\t}\n\t\t\tinventory {\n\t\t\t\treportedAt\n\t\t\t\tstale\n\t\t\t\tos\n\t\t\t\tkernel\n\t\t\t\tvendor\n\t\t\t\tmodel\n\t\t\t\tserial\n\t\t\t\tcpuModel\n\t\t\t\tcpuArch\n\t\t\t\tcpuCores\n\t\t\t\tcpuThreads\n\t\t\t\tmemoryBytes\n\t\t\t\tgpuNote\n\t\t\t}\n\t\t\tcertificates(live: false, first: 20) {\n\t\t\t\tnodes {\n\t\t\t\t\tserial\n\t\t\t\t\tstate\n\t\t\t\t\tgeneration\n\t\t\t\t\tkeyFingerprint\n\t\t\t\t\tissuedAt\n\t\t\t\t\tnotAfter\n\t\t\t\t\tfirstUsedAt\n\t\t\t\t\tendedAt\n\t\t\t\t\tendedBy\n\t\t\t\t\treason\n\t\t\t\t}\n\t\t\t\tpageInfo {\n\t\t\t\t\thasNextPage\n\t\t\t\t}\n\t\t\t}\n\t\t}\n\t}\n": typeof types.NodeDetailDocument,
    "\n\tfragment AllocationLine on Allocation {\n\t\tid\n\t\treservationId\n\t\ttenantId\n\t\tdevices\n\t\tlive\n\t\tfuture\n\t\tstartsAt\n\t\tendsAt\n\t\treleasedAt\n\t\tendedAt\n\t}\n": typeof types.AllocationLineFragmentDoc,
    "\n\tquery Allocations($tenantId: ID!, $nodeId: ID!, $after: Cursor) {\n\t\tnode(tenantId: $tenantId, nodeId: $nodeId) {\n\t\t\tid\n\t\t\tallocations(live: false, first: 100, after: $after) {\n\t\t\t\tnodes {\n\t\t\t\t\t...AllocationLine\n\t\t\t\t}\n\t\t\t\tpageInfo {\n\t\t\t\t\thasNextPage\n\t\t\t\t\tendCursor\n\t\t\t\t}\n\t\t\t}\n\t\t}\n\t}\n": typeof types.AllocationsDocument,
};
const documents: Documents = {
    "\n\tmutation Cordon($input: NodeCordonInput!) {\n\t\tnodeCordon(input: $input) {\n\t\t\tnode {\n\t\t\t\t...NodeRow\n\t\t\t}\n\t\t\tchanged\n\t\t\twarnings\n\t\t}\n\t}\n": types.CordonDocument,
    "\n\tmutation Uncordon($input: NodeUncordonInput!) {\n\t\tnodeUncordon(input: $input) {\n\t\t\tnode {\n\t\t\t\t...NodeRow\n\t\t\t}\n\t\t\tchanged\n\t\t\twarnings\n\t\t}\n\t}\n": types.UncordonDocument,
    "\n\tmutation Drain($input: NodeDrainInput!) {\n\t\tnodeDrain(input: $input) {\n\t\t\tnode {\n\t\t\t\t...NodeRow\n\t\t\t}\n\t\t\tchanged\n\t\t\twarnings\n\t\t}\n\t}\n": types.DrainDocument,
    "\n\tmutation Taint($input: NodeTaintInput!) {\n\t\tnodeTaint(input: $input) {\n\t\t\tnode {\n\t\t\t\t...NodeRow\n\t\t\t}\n\t\t\tchanged\n\t\t\twarnings\n\t\t}\n\t}\n": types.TaintDocument,
    "\n\tmutation Label($input: NodeLabelInput!) {\n\t\tnodeLabel(input: $input) {\n\t\t\tnode {\n\t\t\t\t...NodeRow\n\t\t\t}\n\t\t\tchanged\n\t\t\twarnings\n\t\t}\n\t}\n": types.LabelDocument,
    "\n\tmutation Adopt($input: NodeAdoptInput!) {\n\t\tnodeAdopt(input: $input) {\n\t\t\tnode {\n\t\t\t\t...NodeRow\n\t\t\t}\n\t\t\tchanged\n\t\t\twarnings\n\t\t}\n\t}\n": types.AdoptDocument,
    "\n\tmutation Delete($input: NodeDeleteInput!) {\n\t\tnodeDelete(input: $input) {\n\t\t\tnodeId\n\t\t\tdeleted\n\t\t\twarnings\n\t\t}\n\t}\n": types.DeleteDocument,
    "\n\tquery Labels($tenantId: ID!, $nodeId: ID!) {\n\t\tnode(tenantId: $tenantId, nodeId: $nodeId) {\n\t\t\tid\n\t\t\tversion\n\t\t\tlabels {\n\t\t\t\tkey\n\t\t\t\tvalue\n\t\t\t\tsource\n\t\t\t}\n\t\t}\n\t}\n": types.LabelsDocument,
    "\n\tquery DrainPlan($tenantId: ID!, $nodeId: ID!) {\n\t\tdrainPlan(tenantId: $tenantId, nodeId: $nodeId) {\n\t\t\tempty\n\t\t\tliveAllocationCount\n\t\t\texpectedAt\n\t\t\tblockers {\n\t\t\t\t...AllocationLine\n\t\t\t}\n\t\t}\n\t}\n": types.DrainPlanDocument,
    "\n\tfragment NodeRow on ComputeNode {\n\t\tid\n\t\thostname\n\t\tversion\n\t\tpool {\n\t\t\tid\n\t\t\tname\n\t\t}\n\t\tprovisionState\n\t\tfailure {\n\t\t\tphase\n\t\t\tmessage\n\t\t\tat\n\t\t}\n\t\tcordoned\n\t\tcordon {\n\t\t\treason\n\t\t\tby\n\t\t\tat\n\t\t\tuntil\n\t\t\toverdue\n\t\t}\n\t\tnoScheduleReasons\n\t\tmaintenance\n\t\tconnectivity\n\t\tconnectivitySince\n\t\tdeletedAt\n\t\tlastSeen\n\t\tplaceableFor\n\t\tstatusSentence\n\t\toutSince\n\t\tliveAllocationCount\n\t\tholds {\n\t\t\treason\n\t\t\towner\n\t\t\tby\n\t\t\tmessage\n\t\t\tsince\n\t\t}\n\t\tdrain {\n\t\t\tid\n\t\t\tstate\n\t\t\treason\n\t\t\tby\n\t\t\tstartedAt\n\t\t\tendedAt\n\t\t\texpectedAt\n\t\t\tdeadline\n\t\t\toverdue\n\t\t\tconfirmedByNode\n\t\t}\n\t\tcontrols {\n\t\t\tcontrol\n\t\t\taction\n\t\t\tenabled\n\t\t\tbecause\n\t\t}\n\t}\n": types.NodeRowFragmentDoc,
    "\n\tquery Viewer {\n\t\tviewer {\n\t\t\tname\n\t\t\ttenants {\n\t\t\t\tid\n\t\t\t}\n\t\t}\n\t}\n": types.ViewerDocument,
    "\n\tquery Pools($tenantId: ID!) {\n\t\tpools(tenantId: $tenantId) {\n\t\t\tid\n\t\t\tname\n\t\t}\n\t}\n": types.PoolsDocument,
    "\n\tquery Nodes($tenantId: ID!, $filter: NodeFilter, $orderBy: NodeOrder!, $first: Int!, $after: Cursor) {\n\t\tnodes(tenantId: $tenantId, filter: $filter, orderBy: $orderBy, first: $first, after: $after) {\n\t\t\tnodes {\n\t\t\t\t...NodeRow\n\t\t\t}\n\t\t\tpageInfo {\n\t\t\t\thasNextPage\n\t\t\t\tendCursor\n\t\t\t}\n\t\t\ttotalCount\n\t\t\tasOf\n\t\t}\n\t}\n": types.NodesDocument,
    "\n\tsubscription Rows($tenantId: ID!, $after: Cursor!, $nodeIds: [ID!]!) {\n\t\tnodeChanges(tenantId: $tenantId, after: $after, nodeIds: $nodeIds, maxPerSecond: 4) {\n\t\t\tchanged {\n\t\t\t\t...NodeRow\n\t\t\t}\n\t\t\tremoved\n\t\t\tasOf\n\t\t}\n\t}\n": types.RowsDocument,
    "\n\tsubscription Members($tenantId: ID!, $after: Cursor!, $filter: NodeFilter) {\n\t\tnodeChanges(tenantId: $tenantId, after: $after, filter: $filter, maxPerSecond: 2) {\n\t\t\tchanged {\n\t\t\t\tid\n\t\t\t}\n\t\t\tremoved\n\t\t\tasOf\n\t\t}\n\t}\n": types.MembersDocument,
    "\n\tsubscription Fleet($tenantId: ID!) {\n\t\tfleetSummary(tenantId: $tenantId) {\n\t\t\ttotal\n\t\t\tconnectivity {\n\t\t\t\tconnectivity\n\t\t\t\tcount\n\t\t\t}\n\t\t\tcordoned\n\t\t\tdraining\n\t\t\tmaintenance\n\t\t}\n\t}\n": types.FleetDocument,
    "\n\tsubscription Count($tenantId: ID!, $filter: NodeFilter) {\n\t\tfleetSummary(tenantId: $tenantId, filter: $filter) {\n\t\t\ttotal\n\t\t}\n\t}\n": types.CountDocument,
    "\n\tmutation Select($input: NodeSelectionCreateInput!) {\n\t\tnodeSelectionCreate(input: $input) {\n\t\t\tselection {\n\t\t\t\tid\n\t\t\t\tcount\n\t\t\t\texpiresAt\n\t\t\t}\n\t\t}\n\t}\n": types.SelectDocument,
    "\n\tquery Preview(\n\t\t$tenantId: ID!\n\t\t$selectionId: ID!\n\t\t$control: NodesControl!\n\t\t$anyone: Boolean!\n\t\t$add: [String!]\n\t\t$remove: [String!]\n\t\t$set: [LabelInput!]\n\t) {\n\t\tnodeSelection(tenantId: $tenantId, selectionId: $selectionId) {\n\t\t\tid\n\t\t\tpreview(control: $control, anyone: $anyone, add: $add, remove: $remove, set: $set) {\n\t\t\t\tdone\n\t\t\t\tunchanged\n\t\t\t\trefused\n\t\t\t\tgroups {\n\t\t\t\t\toutcome\n\t\t\t\t\tcode\n\t\t\t\t\tbecause\n\t\t\t\t\tprovisionState\n\t\t\t\t\tcordoned\n\t\t\t\t\tdraining\n\t\t\t\t\tcount\n\t\t\t\t}\n\t\t\t}\n\t\t}\n\t}\n": types.PreviewDocument,
    "\n\tfragment Operation on NodesOperation {\n\t\tid\n\t\tcontrol\n\t\tstate\n\t\tby\n\t\treason\n\t\tmaxPerPool\n\t\tcount\n\t\tdone\n\t\tunchanged\n\t\trefused\n\t\tleft\n\t\twaiting\n\t\tcreatedAt\n\t\tendedAt\n\t\tendedBy\n\t}\n": types.OperationFragmentDoc,
    "\n\tfragment Result on NodesOperationResult {\n\t\tnodeId\n\t\toutcome\n\t\tcode\n\t\tmessage\n\t\tat\n\t\tnode {\n\t\t\tid\n\t\t\thostname\n\t\t}\n\t}\n": types.ResultFragmentDoc,
    "\n\tmutation NodesCordon($input: NodesControlInput!) {\n\t\tnodesCordon(input: $input) {\n\t\t\twarnings\n\t\t\toperation {\n\t\t\t\t...Operation\n\t\t\t}\n\t\t}\n\t}\n": types.NodesCordonDocument,
    "\n\tmutation NodesUncordon($input: NodesControlInput!) {\n\t\tnodesUncordon(input: $input) {\n\t\t\twarnings\n\t\t\toperation {\n\t\t\t\t...Operation\n\t\t\t}\n\t\t}\n\t}\n": types.NodesUncordonDocument,
    "\n\tmutation NodesDrain($input: NodesControlInput!) {\n\t\tnodesDrain(input: $input) {\n\t\t\twarnings\n\t\t\toperation {\n\t\t\t\t...Operation\n\t\t\t}\n\t\t}\n\t}\n": types.NodesDrainDocument,
    "\n\tmutation NodesTaint($input: NodesControlInput!) {\n\t\tnodesTaint(input: $input) {\n\t\t\twarnings\n\t\t\toperation {\n\t\t\t\t...Operation\n\t\t\t}\n\t\t}\n\t}\n": types.NodesTaintDocument,
    "\n\tmutation NodesLabel($input: NodesControlInput!) {\n\t\tnodesLabel(input: $input) {\n\t\t\twarnings\n\t\t\toperation {\n\t\t\t\t...Operation\n\t\t\t}\n\t\t}\n\t}\n": types.NodesLabelDocument,
    "\n\tmutation NodesAdopt($input: NodesControlInput!) {\n\t\tnodesAdopt(input: $input) {\n\t\t\twarnings\n\t\t\toperation {\n\t\t\t\t...Operation\n\t\t\t}\n\t\t}\n\t}\n": types.NodesAdoptDocument,
    "\n\tmutation StopOperation($input: NodesOperationStopInput!) {\n\t\tnodesOperationStop(input: $input) {\n\t\t\toperation {\n\t\t\t\t...Operation\n\t\t\t}\n\t\t}\n\t}\n": types.StopOperationDocument,
    "\n\tquery RunningOperations($tenantId: ID!) {\n\t\tnodesOperations(tenantId: $tenantId, active: true, first: 20) {\n\t\t\tnodes {\n\t\t\t\t...Operation\n\t\t\t}\n\t\t}\n\t}\n": types.RunningOperationsDocument,
    "\n\tquery OperationResults($tenantId: ID!, $operationId: ID!, $outcomes: [NodesOutcome!], $after: Cursor) {\n\t\tnodesOperation(tenantId: $tenantId, operationId: $operationId) {\n\t\t\t...Operation\n\t\t\tresults(outcomes: $outcomes, first: 200, after: $after) {\n\t\t\t\tnodes {\n\t\t\t\t\t...Result\n\t\t\t\t}\n\t\t\t\tpageInfo {\n\t\t\t\t\thasNextPage\n\t\t\t\t\tendCursor\n\t\t\t\t}\n\t\t\t}\n\t\t}\n\t}\n": types.OperationResultsDocument,
    "\n\tsubscription FollowOperation($tenantId: ID!, $operationId: ID!, $after: Cursor) {\n\t\tnodesOperation(tenantId: $tenantId, operationId: $operationId, after: $after) {\n\t\t\t...Operation\n\t\t\tcursor\n\t\t\tnewResults {\n\t\t\t\t...Result\n\t\t\t}\n\t\t}\n\t}\n": types.FollowOperationDocument,
    "\n\tfragment DrainLine on Drain {\n\t\tid\n\t\tstate\n\t\treason\n\t\tby\n\t\tstartedAt\n\t\tendedAt\n\t\tendedBy\n\t\tcause\n\t\tdeadline\n\t\toverdue\n\t\texpectedAt\n\t\tendedAllocationCount\n\t\tconfirmedByNode\n\t\tnode {\n\t\t\t...NodeRow\n\t\t}\n\t}\n": types.DrainLineFragmentDoc,
    "\n\tquery Drains($tenantId: ID!, $active: Boolean!, $first: Int!, $after: Cursor) {\n\t\tdrains(tenantId: $tenantId, active: $active, first: $first, after: $after) {\n\t\t\tnodes {\n\t\t\t\t...DrainLine\n\t\t\t}\n\t\t\tpageInfo {\n\t\t\t\thasNextPage\n\t\t\t\tendCursor\n\t\t\t}\n\t\t}\n\t}\n": types.DrainsDocument,
    "\n\tsubscription DrainChanges($tenantId: ID!, $after: Cursor!) {\n\t\tdrainChanges(tenantId: $tenantId, after: $after) {\n\t\t\t...DrainLine\n\t\t}\n\t}\n": types.DrainChangesDocument,
    "\n\tfragment EventLine on Event {\n\t\t__typename\n\t\tid\n\t\tcursor\n\t\ttype\n\t\tat\n\t\tnodeId\n\t\tactor\n\t\treason\n\t\tnode {\n\t\t\tid\n\t\t\thostname\n\t\t}\n\t\t... on NodeCordonEvent {\n\t\t\tuntil\n\t\t\tcancelledDrainId\n\t\t}\n\t\t... on NodeDraining {\n\t\t\tdrainId\n\t\t\tdeadline\n\t\t}\n\t\t... on NodeDrained {\n\t\t\tdrainId\n\t\t\tconfirmedByNode\n\t\t}\n\t\t... on NodeTaintEvent {\n\t\t\ttaintsAdded\n\t\t\ttaintsRemoved\n\t\t}\n\t\t... on NodeLabelEvent {\n\t\t\tlabelsSet {\n\t\t\t\tkey\n\t\t\t\tvalue\n\t\t\t}\n\t\t\tlabelsRemoved {\n\t\t\t\tkey\n\t\t\t\tvalue\n\t\t\t}\n\t\t\tlabelsDisplaced {\n\t\t\t\tkey\n\t\t\t\tvalue\n\t\t\t}\n\t\t}\n\t\t... on NodeJoinEvent {\n\t\t\tgeneration\n\t\t}\n\t\t... on NodeAdoptionEvent {\n\t\t\tchecks\n\t\t}\n\t\t... on NodeConditionEvent {\n\t\t\tcondition\n\t\t\tmessage\n\t\t}\n\t\t... on NodeSessionEvent {\n\t\t\tgateway\n\t\t\tcause\n\t\t\tlastSeen\n\t\t}\n\t\t... on ReservationEvent {\n\t\t\treservationId\n\t\t\tstartsAt\n\t\t\tendsAt\n\t\t\tdeviceUuids\n\t\t}\n\t\t... on AllocationEvent {\n\t\t\treservationId\n\t\t}\n\t\t... on CertificateSecurityEvent {\n\t\t\tserial\n\t\t\tclaimedNodeId\n\t\t}\n\t\t... on JoinTokenSecurityEvent {\n\t\t\tjoinTokenId\n\t\t\thostname\n\t\t\trefusal\n\t\t}\n\t\t... on GenericEvent {\n\t\t\tdata\n\t\t}\n\t}\n": types.EventLineFragmentDoc,
    "\n\tquery History($tenantId: ID!, $nodeId: ID, $types: [String!], $actor: String, $first: Int!, $after: Cursor) {\n\t\tevents(tenantId: $tenantId, nodeId: $nodeId, types: $types, actor: $actor, first: $first, after: $after) {\n\t\t\tnodes {\n\t\t\t\t...EventLine\n\t\t\t}\n\t\t\tpageInfo {\n\t\t\t\thasNextPage\n\t\t\t\tendCursor\n\t\t\t}\n\t\t}\n\t}\n": types.HistoryDocument,
    "\n\tquery Log($tenantId: ID!) {\n\t\tlog(tenantId: $tenantId) {\n\t\t\thead\n\t\t}\n\t}\n": types.LogDocument,
    "\n\tsubscription Events($tenantId: ID!, $nodeId: ID, $types: [String!], $after: Cursor!) {\n\t\tnodeEvents(tenantId: $tenantId, nodeId: $nodeId, types: $types, after: $after) {\n\t\t\t...EventLine\n\t\t}\n\t}\n": types.EventsDocument,
    "\n\tquery NodeDetail($tenantId: ID!, $nodeId: ID!) {\n\t\tnodes(tenantId: $tenantId, filter: { nodeIds: [$nodeId], includeDeleted: true }, first: 1) {\n\t\t\tnodes {\n\t\t\t\t...NodeRow\n\t\t\t}\n\t\t\tasOf\n\t\t}\n\t\tnode(tenantId: $tenantId, nodeId: $nodeId) {\n\t\t\tid\n\t\t\tversion\n\t\t\tconnectivity\n\t\t\tliveAllocationCount\n\t\t\tkey\n\t\t\ttenantId\n\t\t\tcreatedAt\n\t\t\tidentityGeneration\n\t\t\tlabels {\n\t\t\t\tkey\n\t\t\t\tvalue\n\t\t\t\tsource\n\t\t\t}\n\t\t\tsession {\n\t\t\t\tgateway\n\t\t\t\tsince\n\t\t\t\tendedAt\n\t\t\t\tagentVersion\n\t\t\t\tbootId\n\t\t\t\tclockSkewMs\n\t\t\t}\n\t\t\tchecks {\n\t\t\t\tname\n\t\t\t\tstatus\n\t\t\t\tmessage\n\t\t\t\tevidence\n\t\t\t\tdurationMs\n\t\t\t\tstartedAt\n\t\t\t\tendedAt\n\t\t\t}\n\t\t\tdrain {\n\t\t\t\tid\n\t\t\t\tendedAllocationCount\n\t\t\t\tblockers {\n\t\t\t\t\t...AllocationLine\n\t\t\t\t}\n\t\t\t}\n\t\t\tlastDrain {\n\t\t\t\tid\n\t\t\t\tstate\n\t\t\t\treason\n\t\t\t\tby\n\t\t\t\tstartedAt\n\t\t\t\tendedAt\n\t\t\t\tendedBy\n\t\t\t\tcause\n\t\t\t\tendedAllocationCount\n\t\t\t\tconfirmedByNode\n\t\t\t}\n\t\t\tallocations(live: false, first: 50) {\n\t\t\t\tnodes {\n\t\t\t\t\t...AllocationLine\n\t\t\t\t}\n\t\t\t\tpageInfo {\n\t\t\t\t\thasNextPage\n\t\t\t\t\tendCursor\n\t\t\t\t}\n\t\t\t}\n\t\t\tdevices {\n\t\t\t\tuuid\n\t\t\t\tkind\n\t\t\t\tslot\n\t\t\t\tmodel\n\t\t\t\tmemoryBytes\n\t\t\t\tserial\n\t\t\t\tpciAddress\n\t\t\t\tmissingSince\n\t\t\t\theld\n\t\t\t\tinUse\n\t\t\t}\n\t\t\tstorageRoots {\n\t\t\t\tpath\n\t\t\t\tuuid\n\t\t\t\tdevice\n\t\t\t\tfsType\n\t\t\t\tsizeBytes\n\t\t\t\tmissingSince\n\t\t\t}\n\t\t\tscalarResources {\n\t\t\t\tname\n\t\t\t\tamount\n\t\t\t\tunit\n\t\t\t}\n\t\t\tinventory {\n\t\t\t\treportedAt\n\t\t\t\tstale\n\t\t\t\tos\n\t\t\t\tkernel\n\t\t\t\tvendor\n\t\t\t\tmodel\n\t\t\t\tserial\n\t\t\t\tcpuModel\n\t\t\t\tcpuArch\n\t\t\t\tcpuCores\n\t\t\t\tcpuThreads\n\t\t\t\tmemoryBytes\n\t\t\t\tgpuNote\n\t\t\t}\n\t\t\tcertificates(live: false, first: 20) {\n\t\t\t\tnodes {\n\t\t\t\t\tserial\n\t\t\t\t\tstate\n\t\t\t\t\tgeneration\n\t\t\t\t\tkeyFingerprint\n\t\t\t\t\tissuedAt\n\t\t\t\t\tnotAfter\n\t\t\t\t\tfirstUsedAt\n\t\t\t\t\tendedAt\n\t\t\t\t\tendedBy\n\t\t\t\t\treason\n\t\t\t\t}\n\t\t\t\tpageInfo {\n\t\t\t\t\thasNextPage\n\t\t\t\t}\n\t\t\t}\n\t\t}\n\t}\n": types.NodeDetailDocument,
    "\n\tfragment AllocationLine on Allocation {\n\t\tid\n\t\treservationId\n\t\ttenantId\n\t\tdevices\n\t\tlive\n\t\tfuture\n\t\tstartsAt\n\t\tendsAt\n\t\treleasedAt\n\t\tendedAt\n\t}\n": types.AllocationLineFragmentDoc,
    "\n\tquery Allocations($tenantId: ID!, $nodeId: ID!, $after: Cursor) {\n\t\tnode(tenantId: $tenantId, nodeId: $nodeId) {\n\t\t\tid\n\t\t\tallocations(live: false, first: 100, after: $after) {\n\t\t\t\tnodes {\n\t\t\t\t\t...AllocationLine\n\t\t\t\t}\n\t\t\t\tpageInfo {\n\t\t\t\t\thasNextPage\n\t\t\t\t\tendCursor\n\t\t\t\t}\n\t\t\t}\n\t\t}\n\t}\n": types.AllocationsDocument,
};

/**
 * The graphql function is used to parse GraphQL queries into a document that can be used by GraphQL clients.
 */
export function graphql(source: "\n\tmutation Cordon($input: NodeCordonInput!) {\n\t\tnodeCordon(input: $input) {\n\t\t\tnode {\n\t\t\t\t...NodeRow\n\t\t\t}\n\t\t\tchanged\n\t\t\twarnings\n\t\t}\n\t}\n"): typeof import('./graphql').CordonDocument;
/**
 * The graphql function is used to parse GraphQL queries into a document that can be used by GraphQL clients.
 */
export function graphql(source: "\n\tmutation Uncordon($input: NodeUncordonInput!) {\n\t\tnodeUncordon(input: $input) {\n\t\t\tnode {\n\t\t\t\t...NodeRow\n\t\t\t}\n\t\t\tchanged\n\t\t\twarnings\n\t\t}\n\t}\n"): typeof import('./graphql').UncordonDocument;
/**
 * The graphql function is used to parse GraphQL queries into a document that can be used by GraphQL clients.
 */
export function graphql(source: "\n\tmutation Drain($input: NodeDrainInput!) {\n\t\tnodeDrain(input: $input) {\n\t\t\tnode {\n\t\t\t\t...NodeRow\n\t\t\t}\n\t\t\tchanged\n\t\t\twarnings\n\t\t}\n\t}\n"): typeof import('./graphql').DrainDocument;
/**
 * The graphql function is used to parse GraphQL queries into a document that can be used by GraphQL clients.
 */
export function graphql(source: "\n\tmutation Taint($input: NodeTaintInput!) {\n\t\tnodeTaint(input: $input) {\n\t\t\tnode {\n\t\t\t\t...NodeRow\n\t\t\t}\n\t\t\tchanged\n\t\t\twarnings\n\t\t}\n\t}\n"): typeof import('./graphql').TaintDocument;
/**
 * The graphql function is used to parse GraphQL queries into a document that can be used by GraphQL clients.
 */
export function graphql(source: "\n\tmutation Label($input: NodeLabelInput!) {\n\t\tnodeLabel(input: $input) {\n\t\t\tnode {\n\t\t\t\t...NodeRow\n\t\t\t}\n\t\t\tchanged\n\t\t\twarnings\n\t\t}\n\t}\n"): typeof import('./graphql').LabelDocument;
/**
 * The graphql function is used to parse GraphQL queries into a document that can be used by GraphQL clients.
 */
export function graphql(source: "\n\tmutation Adopt($input: NodeAdoptInput!) {\n\t\tnodeAdopt(input: $input) {\n\t\t\tnode {\n\t\t\t\t...NodeRow\n\t\t\t}\n\t\t\tchanged\n\t\t\twarnings\n\t\t}\n\t}\n"): typeof import('./graphql').AdoptDocument;
/**
 * The graphql function is used to parse GraphQL queries into a document that can be used by GraphQL clients.
 */
export function graphql(source: "\n\tmutation Delete($input: NodeDeleteInput!) {\n\t\tnodeDelete(input: $input) {\n\t\t\tnodeId\n\t\t\tdeleted\n\t\t\twarnings\n\t\t}\n\t}\n"): typeof import('./graphql').DeleteDocument;
/**
 * The graphql function is used to parse GraphQL queries into a document that can be used by GraphQL clients.
 */
export function graphql(source: "\n\tquery Labels($tenantId: ID!, $nodeId: ID!) {\n\t\tnode(tenantId: $tenantId, nodeId: $nodeId) {\n\t\t\tid\n\t\t\tversion\n\t\t\tlabels {\n\t\t\t\tkey\n\t\t\t\tvalue\n\t\t\t\tsource\n\t\t\t}\n\t\t}\n\t}\n"): typeof import('./graphql').LabelsDocument;
/**
 * The graphql function is used to parse GraphQL queries into a document that can be used by GraphQL clients.
 */
export function graphql(source: "\n\tquery DrainPlan($tenantId: ID!, $nodeId: ID!) {\n\t\tdrainPlan(tenantId: $tenantId, nodeId: $nodeId) {\n\t\t\tempty\n\t\t\tliveAllocationCount\n\t\t\texpectedAt\n\t\t\tblockers {\n\t\t\t\t...AllocationLine\n\t\t\t}\n\t\t}\n\t}\n"): typeof import('./graphql').DrainPlanDocument;
/**
 * The graphql function is used to parse GraphQL queries into a document that can be used by GraphQL clients.
 */
export function graphql(source: "\n\tfragment NodeRow on ComputeNode {\n\t\tid\n\t\thostname\n\t\tversion\n\t\tpool {\n\t\t\tid\n\t\t\tname\n\t\t}\n\t\tprovisionState\n\t\tfailure {\n\t\t\tphase\n\t\t\tmessage\n\t\t\tat\n\t\t}\n\t\tcordoned\n\t\tcordon {\n\t\t\treason\n\t\t\tby\n\t\t\tat\n\t\t\tuntil\n\t\t\toverdue\n\t\t}\n\t\tnoScheduleReasons\n\t\tmaintenance\n\t\tconnectivity\n\t\tconnectivitySince\n\t\tdeletedAt\n\t\tlastSeen\n\t\tplaceableFor\n\t\tstatusSentence\n\t\toutSince\n\t\tliveAllocationCount\n\t\tholds {\n\t\t\treason\n\t\t\towner\n\t\t\tby\n\t\t\tmessage\n\t\t\tsince\n\t\t}\n\t\tdrain {\n\t\t\tid\n\t\t\tstate\n\t\t\treason\n\t\t\tby\n\t\t\tstartedAt\n\t\t\tendedAt\n\t\t\texpectedAt\n\t\t\tdeadline\n\t\t\toverdue\n\t\t\tconfirmedByNode\n\t\t}\n\t\tcontrols {\n\t\t\tcontrol\n\t\t\taction\n\t\t\tenabled\n\t\t\tbecause\n\t\t}\n\t}\n"): typeof import('./graphql').NodeRowFragmentDoc;
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
export function graphql(source: "\n\tquery Nodes($tenantId: ID!, $filter: NodeFilter, $orderBy: NodeOrder!, $first: Int!, $after: Cursor) {\n\t\tnodes(tenantId: $tenantId, filter: $filter, orderBy: $orderBy, first: $first, after: $after) {\n\t\t\tnodes {\n\t\t\t\t...NodeRow\n\t\t\t}\n\t\t\tpageInfo {\n\t\t\t\thasNextPage\n\t\t\t\tendCursor\n\t\t\t}\n\t\t\ttotalCount\n\t\t\tasOf\n\t\t}\n\t}\n"): typeof import('./graphql').NodesDocument;
/**
 * The graphql function is used to parse GraphQL queries into a document that can be used by GraphQL clients.
 */
export function graphql(source: "\n\tsubscription Rows($tenantId: ID!, $after: Cursor!, $nodeIds: [ID!]!) {\n\t\tnodeChanges(tenantId: $tenantId, after: $after, nodeIds: $nodeIds, maxPerSecond: 4) {\n\t\t\tchanged {\n\t\t\t\t...NodeRow\n\t\t\t}\n\t\t\tremoved\n\t\t\tasOf\n\t\t}\n\t}\n"): typeof import('./graphql').RowsDocument;
/**
 * The graphql function is used to parse GraphQL queries into a document that can be used by GraphQL clients.
 */
export function graphql(source: "\n\tsubscription Members($tenantId: ID!, $after: Cursor!, $filter: NodeFilter) {\n\t\tnodeChanges(tenantId: $tenantId, after: $after, filter: $filter, maxPerSecond: 2) {\n\t\t\tchanged {\n\t\t\t\tid\n\t\t\t}\n\t\t\tremoved\n\t\t\tasOf\n\t\t}\n\t}\n"): typeof import('./graphql').MembersDocument;
/**
 * The graphql function is used to parse GraphQL queries into a document that can be used by GraphQL clients.
 */
export function graphql(source: "\n\tsubscription Fleet($tenantId: ID!) {\n\t\tfleetSummary(tenantId: $tenantId) {\n\t\t\ttotal\n\t\t\tconnectivity {\n\t\t\t\tconnectivity\n\t\t\t\tcount\n\t\t\t}\n\t\t\tcordoned\n\t\t\tdraining\n\t\t\tmaintenance\n\t\t}\n\t}\n"): typeof import('./graphql').FleetDocument;
/**
 * The graphql function is used to parse GraphQL queries into a document that can be used by GraphQL clients.
 */
export function graphql(source: "\n\tsubscription Count($tenantId: ID!, $filter: NodeFilter) {\n\t\tfleetSummary(tenantId: $tenantId, filter: $filter) {\n\t\t\ttotal\n\t\t}\n\t}\n"): typeof import('./graphql').CountDocument;
/**
 * The graphql function is used to parse GraphQL queries into a document that can be used by GraphQL clients.
 */
export function graphql(source: "\n\tmutation Select($input: NodeSelectionCreateInput!) {\n\t\tnodeSelectionCreate(input: $input) {\n\t\t\tselection {\n\t\t\t\tid\n\t\t\t\tcount\n\t\t\t\texpiresAt\n\t\t\t}\n\t\t}\n\t}\n"): typeof import('./graphql').SelectDocument;
/**
 * The graphql function is used to parse GraphQL queries into a document that can be used by GraphQL clients.
 */
export function graphql(source: "\n\tquery Preview(\n\t\t$tenantId: ID!\n\t\t$selectionId: ID!\n\t\t$control: NodesControl!\n\t\t$anyone: Boolean!\n\t\t$add: [String!]\n\t\t$remove: [String!]\n\t\t$set: [LabelInput!]\n\t) {\n\t\tnodeSelection(tenantId: $tenantId, selectionId: $selectionId) {\n\t\t\tid\n\t\t\tpreview(control: $control, anyone: $anyone, add: $add, remove: $remove, set: $set) {\n\t\t\t\tdone\n\t\t\t\tunchanged\n\t\t\t\trefused\n\t\t\t\tgroups {\n\t\t\t\t\toutcome\n\t\t\t\t\tcode\n\t\t\t\t\tbecause\n\t\t\t\t\tprovisionState\n\t\t\t\t\tcordoned\n\t\t\t\t\tdraining\n\t\t\t\t\tcount\n\t\t\t\t}\n\t\t\t}\n\t\t}\n\t}\n"): typeof import('./graphql').PreviewDocument;
/**
 * The graphql function is used to parse GraphQL queries into a document that can be used by GraphQL clients.
 */
export function graphql(source: "\n\tfragment Operation on NodesOperation {\n\t\tid\n\t\tcontrol\n\t\tstate\n\t\tby\n\t\treason\n\t\tmaxPerPool\n\t\tcount\n\t\tdone\n\t\tunchanged\n\t\trefused\n\t\tleft\n\t\twaiting\n\t\tcreatedAt\n\t\tendedAt\n\t\tendedBy\n\t}\n"): typeof import('./graphql').OperationFragmentDoc;
/**
 * The graphql function is used to parse GraphQL queries into a document that can be used by GraphQL clients.
 */
export function graphql(source: "\n\tfragment Result on NodesOperationResult {\n\t\tnodeId\n\t\toutcome\n\t\tcode\n\t\tmessage\n\t\tat\n\t\tnode {\n\t\t\tid\n\t\t\thostname\n\t\t}\n\t}\n"): typeof import('./graphql').ResultFragmentDoc;
/**
 * The graphql function is used to parse GraphQL queries into a document that can be used by GraphQL clients.
 */
export function graphql(source: "\n\tmutation NodesCordon($input: NodesControlInput!) {\n\t\tnodesCordon(input: $input) {\n\t\t\twarnings\n\t\t\toperation {\n\t\t\t\t...Operation\n\t\t\t}\n\t\t}\n\t}\n"): typeof import('./graphql').NodesCordonDocument;
/**
 * The graphql function is used to parse GraphQL queries into a document that can be used by GraphQL clients.
 */
export function graphql(source: "\n\tmutation NodesUncordon($input: NodesControlInput!) {\n\t\tnodesUncordon(input: $input) {\n\t\t\twarnings\n\t\t\toperation {\n\t\t\t\t...Operation\n\t\t\t}\n\t\t}\n\t}\n"): typeof import('./graphql').NodesUncordonDocument;
/**
 * The graphql function is used to parse GraphQL queries into a document that can be used by GraphQL clients.
 */
export function graphql(source: "\n\tmutation NodesDrain($input: NodesControlInput!) {\n\t\tnodesDrain(input: $input) {\n\t\t\twarnings\n\t\t\toperation {\n\t\t\t\t...Operation\n\t\t\t}\n\t\t}\n\t}\n"): typeof import('./graphql').NodesDrainDocument;
/**
 * The graphql function is used to parse GraphQL queries into a document that can be used by GraphQL clients.
 */
export function graphql(source: "\n\tmutation NodesTaint($input: NodesControlInput!) {\n\t\tnodesTaint(input: $input) {\n\t\t\twarnings\n\t\t\toperation {\n\t\t\t\t...Operation\n\t\t\t}\n\t\t}\n\t}\n"): typeof import('./graphql').NodesTaintDocument;
/**
 * The graphql function is used to parse GraphQL queries into a document that can be used by GraphQL clients.
 */
export function graphql(source: "\n\tmutation NodesLabel($input: NodesControlInput!) {\n\t\tnodesLabel(input: $input) {\n\t\t\twarnings\n\t\t\toperation {\n\t\t\t\t...Operation\n\t\t\t}\n\t\t}\n\t}\n"): typeof import('./graphql').NodesLabelDocument;
/**
 * The graphql function is used to parse GraphQL queries into a document that can be used by GraphQL clients.
 */
export function graphql(source: "\n\tmutation NodesAdopt($input: NodesControlInput!) {\n\t\tnodesAdopt(input: $input) {\n\t\t\twarnings\n\t\t\toperation {\n\t\t\t\t...Operation\n\t\t\t}\n\t\t}\n\t}\n"): typeof import('./graphql').NodesAdoptDocument;
/**
 * The graphql function is used to parse GraphQL queries into a document that can be used by GraphQL clients.
 */
export function graphql(source: "\n\tmutation StopOperation($input: NodesOperationStopInput!) {\n\t\tnodesOperationStop(input: $input) {\n\t\t\toperation {\n\t\t\t\t...Operation\n\t\t\t}\n\t\t}\n\t}\n"): typeof import('./graphql').StopOperationDocument;
/**
 * The graphql function is used to parse GraphQL queries into a document that can be used by GraphQL clients.
 */
export function graphql(source: "\n\tquery RunningOperations($tenantId: ID!) {\n\t\tnodesOperations(tenantId: $tenantId, active: true, first: 20) {\n\t\t\tnodes {\n\t\t\t\t...Operation\n\t\t\t}\n\t\t}\n\t}\n"): typeof import('./graphql').RunningOperationsDocument;
/**
 * The graphql function is used to parse GraphQL queries into a document that can be used by GraphQL clients.
 */
export function graphql(source: "\n\tquery OperationResults($tenantId: ID!, $operationId: ID!, $outcomes: [NodesOutcome!], $after: Cursor) {\n\t\tnodesOperation(tenantId: $tenantId, operationId: $operationId) {\n\t\t\t...Operation\n\t\t\tresults(outcomes: $outcomes, first: 200, after: $after) {\n\t\t\t\tnodes {\n\t\t\t\t\t...Result\n\t\t\t\t}\n\t\t\t\tpageInfo {\n\t\t\t\t\thasNextPage\n\t\t\t\t\tendCursor\n\t\t\t\t}\n\t\t\t}\n\t\t}\n\t}\n"): typeof import('./graphql').OperationResultsDocument;
/**
 * The graphql function is used to parse GraphQL queries into a document that can be used by GraphQL clients.
 */
export function graphql(source: "\n\tsubscription FollowOperation($tenantId: ID!, $operationId: ID!, $after: Cursor) {\n\t\tnodesOperation(tenantId: $tenantId, operationId: $operationId, after: $after) {\n\t\t\t...Operation\n\t\t\tcursor\n\t\t\tnewResults {\n\t\t\t\t...Result\n\t\t\t}\n\t\t}\n\t}\n"): typeof import('./graphql').FollowOperationDocument;
/**
 * The graphql function is used to parse GraphQL queries into a document that can be used by GraphQL clients.
 */
export function graphql(source: "\n\tfragment DrainLine on Drain {\n\t\tid\n\t\tstate\n\t\treason\n\t\tby\n\t\tstartedAt\n\t\tendedAt\n\t\tendedBy\n\t\tcause\n\t\tdeadline\n\t\toverdue\n\t\texpectedAt\n\t\tendedAllocationCount\n\t\tconfirmedByNode\n\t\tnode {\n\t\t\t...NodeRow\n\t\t}\n\t}\n"): typeof import('./graphql').DrainLineFragmentDoc;
/**
 * The graphql function is used to parse GraphQL queries into a document that can be used by GraphQL clients.
 */
export function graphql(source: "\n\tquery Drains($tenantId: ID!, $active: Boolean!, $first: Int!, $after: Cursor) {\n\t\tdrains(tenantId: $tenantId, active: $active, first: $first, after: $after) {\n\t\t\tnodes {\n\t\t\t\t...DrainLine\n\t\t\t}\n\t\t\tpageInfo {\n\t\t\t\thasNextPage\n\t\t\t\tendCursor\n\t\t\t}\n\t\t}\n\t}\n"): typeof import('./graphql').DrainsDocument;
/**
 * The graphql function is used to parse GraphQL queries into a document that can be used by GraphQL clients.
 */
export function graphql(source: "\n\tsubscription DrainChanges($tenantId: ID!, $after: Cursor!) {\n\t\tdrainChanges(tenantId: $tenantId, after: $after) {\n\t\t\t...DrainLine\n\t\t}\n\t}\n"): typeof import('./graphql').DrainChangesDocument;
/**
 * The graphql function is used to parse GraphQL queries into a document that can be used by GraphQL clients.
 */
export function graphql(source: "\n\tfragment EventLine on Event {\n\t\t__typename\n\t\tid\n\t\tcursor\n\t\ttype\n\t\tat\n\t\tnodeId\n\t\tactor\n\t\treason\n\t\tnode {\n\t\t\tid\n\t\t\thostname\n\t\t}\n\t\t... on NodeCordonEvent {\n\t\t\tuntil\n\t\t\tcancelledDrainId\n\t\t}\n\t\t... on NodeDraining {\n\t\t\tdrainId\n\t\t\tdeadline\n\t\t}\n\t\t... on NodeDrained {\n\t\t\tdrainId\n\t\t\tconfirmedByNode\n\t\t}\n\t\t... on NodeTaintEvent {\n\t\t\ttaintsAdded\n\t\t\ttaintsRemoved\n\t\t}\n\t\t... on NodeLabelEvent {\n\t\t\tlabelsSet {\n\t\t\t\tkey\n\t\t\t\tvalue\n\t\t\t}\n\t\t\tlabelsRemoved {\n\t\t\t\tkey\n\t\t\t\tvalue\n\t\t\t}\n\t\t\tlabelsDisplaced {\n\t\t\t\tkey\n\t\t\t\tvalue\n\t\t\t}\n\t\t}\n\t\t... on NodeJoinEvent {\n\t\t\tgeneration\n\t\t}\n\t\t... on NodeAdoptionEvent {\n\t\t\tchecks\n\t\t}\n\t\t... on NodeConditionEvent {\n\t\t\tcondition\n\t\t\tmessage\n\t\t}\n\t\t... on NodeSessionEvent {\n\t\t\tgateway\n\t\t\tcause\n\t\t\tlastSeen\n\t\t}\n\t\t... on ReservationEvent {\n\t\t\treservationId\n\t\t\tstartsAt\n\t\t\tendsAt\n\t\t\tdeviceUuids\n\t\t}\n\t\t... on AllocationEvent {\n\t\t\treservationId\n\t\t}\n\t\t... on CertificateSecurityEvent {\n\t\t\tserial\n\t\t\tclaimedNodeId\n\t\t}\n\t\t... on JoinTokenSecurityEvent {\n\t\t\tjoinTokenId\n\t\t\thostname\n\t\t\trefusal\n\t\t}\n\t\t... on GenericEvent {\n\t\t\tdata\n\t\t}\n\t}\n"): typeof import('./graphql').EventLineFragmentDoc;
/**
 * The graphql function is used to parse GraphQL queries into a document that can be used by GraphQL clients.
 */
export function graphql(source: "\n\tquery History($tenantId: ID!, $nodeId: ID, $types: [String!], $actor: String, $first: Int!, $after: Cursor) {\n\t\tevents(tenantId: $tenantId, nodeId: $nodeId, types: $types, actor: $actor, first: $first, after: $after) {\n\t\t\tnodes {\n\t\t\t\t...EventLine\n\t\t\t}\n\t\t\tpageInfo {\n\t\t\t\thasNextPage\n\t\t\t\tendCursor\n\t\t\t}\n\t\t}\n\t}\n"): typeof import('./graphql').HistoryDocument;
/**
 * The graphql function is used to parse GraphQL queries into a document that can be used by GraphQL clients.
 */
export function graphql(source: "\n\tquery Log($tenantId: ID!) {\n\t\tlog(tenantId: $tenantId) {\n\t\t\thead\n\t\t}\n\t}\n"): typeof import('./graphql').LogDocument;
/**
 * The graphql function is used to parse GraphQL queries into a document that can be used by GraphQL clients.
 */
export function graphql(source: "\n\tsubscription Events($tenantId: ID!, $nodeId: ID, $types: [String!], $after: Cursor!) {\n\t\tnodeEvents(tenantId: $tenantId, nodeId: $nodeId, types: $types, after: $after) {\n\t\t\t...EventLine\n\t\t}\n\t}\n"): typeof import('./graphql').EventsDocument;
/**
 * The graphql function is used to parse GraphQL queries into a document that can be used by GraphQL clients.
 */
export function graphql(source: "\n\tquery NodeDetail($tenantId: ID!, $nodeId: ID!) {\n\t\tnodes(tenantId: $tenantId, filter: { nodeIds: [$nodeId], includeDeleted: true }, first: 1) {\n\t\t\tnodes {\n\t\t\t\t...NodeRow\n\t\t\t}\n\t\t\tasOf\n\t\t}\n\t\tnode(tenantId: $tenantId, nodeId: $nodeId) {\n\t\t\tid\n\t\t\tversion\n\t\t\tconnectivity\n\t\t\tliveAllocationCount\n\t\t\tkey\n\t\t\ttenantId\n\t\t\tcreatedAt\n\t\t\tidentityGeneration\n\t\t\tlabels {\n\t\t\t\tkey\n\t\t\t\tvalue\n\t\t\t\tsource\n\t\t\t}\n\t\t\tsession {\n\t\t\t\tgateway\n\t\t\t\tsince\n\t\t\t\tendedAt\n\t\t\t\tagentVersion\n\t\t\t\tbootId\n\t\t\t\tclockSkewMs\n\t\t\t}\n\t\t\tchecks {\n\t\t\t\tname\n\t\t\t\tstatus\n\t\t\t\tmessage\n\t\t\t\tevidence\n\t\t\t\tdurationMs\n\t\t\t\tstartedAt\n\t\t\t\tendedAt\n\t\t\t}\n\t\t\tdrain {\n\t\t\t\tid\n\t\t\t\tendedAllocationCount\n\t\t\t\tblockers {\n\t\t\t\t\t...AllocationLine\n\t\t\t\t}\n\t\t\t}\n\t\t\tlastDrain {\n\t\t\t\tid\n\t\t\t\tstate\n\t\t\t\treason\n\t\t\t\tby\n\t\t\t\tstartedAt\n\t\t\t\tendedAt\n\t\t\t\tendedBy\n\t\t\t\tcause\n\t\t\t\tendedAllocationCount\n\t\t\t\tconfirmedByNode\n\t\t\t}\n\t\t\tallocations(live: false, first: 50) {\n\t\t\t\tnodes {\n\t\t\t\t\t...AllocationLine\n\t\t\t\t}\n\t\t\t\tpageInfo {\n\t\t\t\t\thasNextPage\n\t\t\t\t\tendCursor\n\t\t\t\t}\n\t\t\t}\n\t\t\tdevices {\n\t\t\t\tuuid\n\t\t\t\tkind\n\t\t\t\tslot\n\t\t\t\tmodel\n\t\t\t\tmemoryBytes\n\t\t\t\tserial\n\t\t\t\tpciAddress\n\t\t\t\tmissingSince\n\t\t\t\theld\n\t\t\t\tinUse\n\t\t\t}\n\t\t\tstorageRoots {\n\t\t\t\tpath\n\t\t\t\tuuid\n\t\t\t\tdevice\n\t\t\t\tfsType\n\t\t\t\tsizeBytes\n\t\t\t\tmissingSince\n\t\t\t}\n\t\t\tscalarResources {\n\t\t\t\tname\n\t\t\t\tamount\n\t\t\t\tunit\n\t\t\t}\n\t\t\tinventory {\n\t\t\t\treportedAt\n\t\t\t\tstale\n\t\t\t\tos\n\t\t\t\tkernel\n\t\t\t\tvendor\n\t\t\t\tmodel\n\t\t\t\tserial\n\t\t\t\tcpuModel\n\t\t\t\tcpuArch\n\t\t\t\tcpuCores\n\t\t\t\tcpuThreads\n\t\t\t\tmemoryBytes\n\t\t\t\tgpuNote\n\t\t\t}\n\t\t\tcertificates(live: false, first: 20) {\n\t\t\t\tnodes {\n\t\t\t\t\tserial\n\t\t\t\t\tstate\n\t\t\t\t\tgeneration\n\t\t\t\t\tkeyFingerprint\n\t\t\t\t\tissuedAt\n\t\t\t\t\tnotAfter\n\t\t\t\t\tfirstUsedAt\n\t\t\t\t\tendedAt\n\t\t\t\t\tendedBy\n\t\t\t\t\treason\n\t\t\t\t}\n\t\t\t\tpageInfo {\n\t\t\t\t\thasNextPage\n\t\t\t\t}\n\t\t\t}\n\t\t}\n\t}\n"): typeof import('./graphql').NodeDetailDocument;
/**
 * The graphql function is used to parse GraphQL queries into a document that can be used by GraphQL clients.
 */
export function graphql(source: "\n\tfragment AllocationLine on Allocation {\n\t\tid\n\t\treservationId\n\t\ttenantId\n\t\tdevices\n\t\tlive\n\t\tfuture\n\t\tstartsAt\n\t\tendsAt\n\t\treleasedAt\n\t\tendedAt\n\t}\n"): typeof import('./graphql').AllocationLineFragmentDoc;
/**
 * The graphql function is used to parse GraphQL queries into a document that can be used by GraphQL clients.
 */
export function graphql(source: "\n\tquery Allocations($tenantId: ID!, $nodeId: ID!, $after: Cursor) {\n\t\tnode(tenantId: $tenantId, nodeId: $nodeId) {\n\t\t\tid\n\t\t\tallocations(live: false, first: 100, after: $after) {\n\t\t\t\tnodes {\n\t\t\t\t\t...AllocationLine\n\t\t\t\t}\n\t\t\t\tpageInfo {\n\t\t\t\t\thasNextPage\n\t\t\t\t\tendCursor\n\t\t\t\t}\n\t\t\t}\n\t\t}\n\t}\n"): typeof import('./graphql').AllocationsDocument;


export function graphql(source: string) {
  return (documents as any)[source] ?? {};
}
