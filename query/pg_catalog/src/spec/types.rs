//! Names, oids and properties of the types that clients look up in `pg_type`.

/// One base type per line: name, oid, length, by value, kind, category, preferred, element,
/// array, input, output, receive, send, alignment, storage, collation, SQL name (with `_`
/// for a blank).
pub(crate) const TYPES: &str = "\
bool 16 1 t b B t 0 1000 boolin boolout boolrecv boolsend c p 0 boolean
bytea 17 -1 f b U f 0 1001 byteain byteaout bytearecv byteasend i x 0 bytea
char 18 1 t b Z f 0 1002 charin charout charrecv charsend c p 0 \"char\"
name 19 64 f b S f 18 1003 namein nameout namerecv namesend c p 950 name
int8 20 8 t b N f 0 1016 int8in int8out int8recv int8send d p 0 bigint
int2 21 2 t b N f 0 1005 int2in int2out int2recv int2send s p 0 smallint
int2vector 22 -1 f b A f 21 1006 int2vectorin int2vectorout int2vectorrecv int2vectorsend i p 0 int2vector
int4 23 4 t b N f 0 1007 int4in int4out int4recv int4send i p 0 integer
regproc 24 4 t b N f 0 1008 regprocin regprocout regprocrecv regprocsend i p 0 regproc
text 25 -1 f b S t 0 1009 textin textout textrecv textsend i x 100 text
oid 26 4 t b N t 0 1028 oidin oidout oidrecv oidsend i p 0 oid
tid 27 6 f b U f 0 1010 tidin tidout tidrecv tidsend s p 0 tid
xid 28 4 t b U f 0 1011 xidin xidout xidrecv xidsend i p 0 xid
cid 29 4 t b U f 0 1012 cidin cidout cidrecv cidsend i p 0 cid
oidvector 30 -1 f b A f 26 1013 oidvectorin oidvectorout oidvectorrecv oidvectorsend i p 0 oidvector
json 114 -1 f b U f 0 199 json_in json_out json_recv json_send i x 0 json
xml 142 -1 f b U f 0 143 xml_in xml_out xml_recv xml_send i x 0 xml
pg_node_tree 194 -1 f b Z f 0 0 pg_node_tree_in pg_node_tree_out pg_node_tree_recv pg_node_tree_send i x 100 pg_node_tree
point 600 16 f b G f 701 1017 point_in point_out point_recv point_send d p 0 point
cidr 650 -1 f b I f 0 651 cidr_in cidr_out cidr_recv cidr_send i m 0 cidr
float4 700 4 t b N f 0 1021 float4in float4out float4recv float4send i p 0 real
float8 701 8 t b N t 0 1022 float8in float8out float8recv float8send d p 0 double_precision
unknown 705 -2 f p X f 0 0 unknownin unknownout unknownrecv unknownsend c p 0 unknown
money 790 8 t b N f 0 791 cash_in cash_out cash_recv cash_send d p 0 money
macaddr 829 6 f b U f 0 1040 macaddr_in macaddr_out macaddr_recv macaddr_send i p 0 macaddr
inet 869 -1 f b I t 0 1041 inet_in inet_out inet_recv inet_send i m 0 inet
aclitem 1033 12 f b U f 0 1034 aclitemin aclitemout - - i p 0 aclitem
bpchar 1042 -1 f b S f 0 1014 bpcharin bpcharout bpcharrecv bpcharsend i x 100 bpchar
varchar 1043 -1 f b S f 0 1015 varcharin varcharout varcharrecv varcharsend i x 100 character_varying
date 1082 4 t b D f 0 1182 date_in date_out date_recv date_send i p 0 date
time 1083 8 t b D f 0 1183 time_in time_out time_recv time_send d p 0 time_without_time_zone
timestamp 1114 8 t b D f 0 1115 timestamp_in timestamp_out timestamp_recv timestamp_send d p 0 timestamp_without_time_zone
timestamptz 1184 8 t b D t 0 1185 timestamptz_in timestamptz_out timestamptz_recv timestamptz_send d p 0 timestamp_with_time_zone
interval 1186 16 f b T t 0 1187 interval_in interval_out interval_recv interval_send d p 0 interval
timetz 1266 12 f b D f 0 1270 timetz_in timetz_out timetz_recv timetz_send d p 0 time_with_time_zone
bit 1560 -1 f b V f 0 1561 bit_in bit_out bit_recv bit_send i x 0 \"bit\"
varbit 1562 -1 f b V t 0 1563 varbit_in varbit_out varbit_recv varbit_send i x 0 bit_varying
numeric 1700 -1 f b N f 0 1231 numeric_in numeric_out numeric_recv numeric_send i m 0 numeric
regclass 2205 4 t b N f 0 2210 regclassin regclassout regclassrecv regclasssend i p 0 regclass
regtype 2206 4 t b N f 0 2211 regtypein regtypeout regtyperecv regtypesend i p 0 regtype
record 2249 -1 f p P f 0 2287 record_in record_out record_recv record_send d x 0 record
cstring 2275 -2 f p P f 0 1263 cstring_in cstring_out cstring_recv cstring_send c p 0 cstring
any 2276 4 t p P f 0 0 any_in any_out - - i p 0 \"any\"
anyarray 2277 -1 f p P f 0 0 anyarray_in anyarray_out anyarray_recv anyarray_send d x 0 anyarray
void 2278 4 t p P f 0 0 void_in void_out void_recv void_send i p 0 void
trigger 2279 4 t p P f 0 0 trigger_in trigger_out - - i p 0 trigger
anyelement 2283 4 t p P f 0 0 anyelement_in anyelement_out - - i p 0 anyelement
uuid 2950 16 f b U f 0 2951 uuid_in uuid_out uuid_recv uuid_send c p 0 uuid
pg_lsn 3220 8 t b U f 0 3221 pg_lsn_in pg_lsn_out pg_lsn_recv pg_lsn_send d p 0 pg_lsn
jsonb 3802 -1 f b U f 0 3807 jsonb_in jsonb_out jsonb_recv jsonb_send i x 0 jsonb
regnamespace 4089 4 t b N f 0 4090 regnamespacein regnamespaceout regnamespacerecv regnamespacesend i p 0 regnamespace
regrole 4096 4 t b N f 0 4097 regrolein regroleout regrolerecv regrolesend i p 0 regrole
";
