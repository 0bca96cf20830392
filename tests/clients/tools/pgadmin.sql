SET DateStyle=ISO; SET client_min_messages=notice; SELECT set_config('bytea_output', 'hex', false) FROM pg_show_all_settings() WHERE name = 'bytea_output'; SET client_encoding='UTF8'
;
SELECT set_config('bytea_output', 'hex', false) FROM pg_settings WHERE name = 'bytea_output'
;
SELECT d.oid AS did, d.datname, d.datallowconn, pg_encoding_to_char(d.encoding) AS serverencoding,
    has_database_privilege(d.oid, 'CREATE') AS cancreate, d.datistemplate
FROM pg_catalog.pg_database d WHERE d.datname = current_database()
;
SELECT gss_authenticated, encrypted FROM pg_catalog.pg_stat_gssapi WHERE pid = pg_backend_pid()
;
SELECT r.oid AS id, r.rolname AS name, r.rolsuper AS is_superuser,
    CASE WHEN r.rolsuper THEN true ELSE r.rolcreaterole END AS can_create_role,
    CASE WHEN 'pg_signal_backend' = ANY(ARRAY(
        WITH RECURSIVE held AS (
            SELECT m.oid, m.rolname FROM pg_roles m WHERE m.oid = r.oid
            UNION ALL
            SELECT a.roleid, g.rolname FROM held h JOIN pg_auth_members a ON a.member = h.oid
                JOIN pg_roles g ON g.oid = a.roleid
        ) SELECT rolname FROM held
    )) THEN true ELSE false END AS can_signal_backend
FROM pg_catalog.pg_roles r WHERE r.rolname = current_user
;
SELECT CASE WHEN usesuper THEN pg_is_in_recovery() ELSE false END AS inrecovery,
    CASE WHEN usesuper AND pg_is_in_recovery() THEN pg_is_wal_replay_paused() ELSE false END AS isreplaypaused
FROM pg_user WHERE usename = current_user
;
SELECT d.datname AS name, s.spcname, d.datallowconn, d.datistemplate AS is_template,
    pg_catalog.has_database_privilege(d.oid, 'CREATE') AS cancreate, c.description
FROM pg_catalog.pg_database d
LEFT OUTER JOIN pg_catalog.pg_tablespace s ON d.dattablespace = s.oid
LEFT OUTER JOIN pg_catalog.pg_shdescription c ON d.oid = c.objoid AND c.classoid = 'pg_database'::regclass
WHERE d.oid > 16383::OID
ORDER BY datname
;
SELECT d.datname AS name, s.spcname, pg_catalog.pg_encoding_to_char(d.encoding) AS encoding,
    pg_catalog.pg_get_userbyid(d.datdba) AS datowner,
    (SELECT pg_catalog.current_setting('lc_messages')) <> '' AS lc_messages, d.datconnlimit,
    CASE WHEN d.datlocprovider = 'i' THEN 'icu' ELSE 'libc' END AS provider, d.daticulocale,
    pg_catalog.current_setting('default_tablespace') AS default_tablespace,
    CASE WHEN d.datname = pg_catalog.current_database() THEN (
        SELECT pg_catalog.string_agg(pg_catalog.array_to_string(a.defaclacl::text[], ', '), ', ' ORDER BY a.defaclrole)
        FROM pg_catalog.pg_default_acl a WHERE a.defaclnamespace = 0::OID AND a.defaclobjtype = 'r'
    ) END AS tblacl,
    pg_catalog.array_to_string(d.datacl::text[], ', ') AS acl
FROM pg_catalog.pg_database d LEFT OUTER JOIN pg_catalog.pg_tablespace s ON d.dattablespace = s.oid
WHERE d.datname = current_database()
;
SELECT n.oid, n.nspname AS name, pg_catalog.has_schema_privilege(n.oid, 'CREATE') AS can_create,
    pg_catalog.has_schema_privilege(n.oid, 'USAGE') AS has_usage, d.description
FROM pg_catalog.pg_namespace n
LEFT OUTER JOIN pg_catalog.pg_description d ON d.objoid = n.oid AND d.classoid = 'pg_namespace'::regclass
WHERE n.nspname NOT LIKE E'pg\\_%' AND NOT (
    (n.nspname = 'pg_catalog' AND EXISTS (SELECT 1 FROM pg_catalog.pg_class WHERE relname = 'pg_class'
        AND relnamespace = n.oid LIMIT 1))
    OR (n.nspname = 'information_schema' AND EXISTS (SELECT 1 FROM pg_catalog.pg_class WHERE relname = 'tables'
        AND relnamespace = n.oid LIMIT 1))
)
ORDER BY n.nspname
;
SELECT CASE WHEN n.nspname LIKE E'pg\\_temp\\_%' THEN 1 WHEN n.nspname LIKE E'pg\\_%' THEN 0 ELSE 3 END AS kind,
    n.nspname AS name, d.description,
    (SELECT pg_catalog.array_to_string(ARRAY(
        SELECT pg_catalog.array_to_string(a.defaclacl::text[], ', ') FROM pg_catalog.pg_default_acl a
        WHERE a.defaclobjtype = 'r' AND a.defaclnamespace = n.oid
    ), ', ')) AS tblacl,
    (SELECT pg_catalog.array_agg(l.provider || '=' || l.label) FROM pg_catalog.pg_seclabels l
     WHERE l.objoid = n.oid) AS seclabels
FROM pg_catalog.pg_namespace n
LEFT OUTER JOIN pg_catalog.pg_description d ON d.objoid = n.oid AND d.classoid = 'pg_namespace'::regclass
LEFT JOIN pg_catalog.pg_roles r ON r.oid = n.nspowner
WHERE n.oid = 2200::oid
ORDER BY 1, n.nspname
;
SELECT c.oid, c.relname AS name,
    (SELECT count(*) FROM pg_catalog.pg_trigger t WHERE t.tgrelid = c.oid AND t.tgisinternal = FALSE) AS triggercount,
    CASE WHEN c.relkind = 'p' THEN true ELSE false END AS is_partitioned, n.nspname AS schema,
    (SELECT count(1) FROM pg_catalog.pg_inherits i WHERE i.inhrelid = c.oid LIMIT 1) AS is_inherits,
    (SELECT count(1) FROM pg_catalog.pg_inherits i WHERE i.inhparent = c.oid LIMIT 1) AS is_inherited
FROM pg_catalog.pg_class c INNER JOIN pg_catalog.pg_namespace n ON c.relnamespace = n.oid
WHERE c.relkind IN ('r', 't', 'f', 'p') AND NOT c.relispartition AND c.relnamespace = 2200
ORDER BY n.nspname, c.relname
;
SELECT *, CASE WHEN inherits IS NULL THEN ARRAY[]::varchar[] ELSE inherits END AS coll_inherits FROM (
    SELECT c.oid, c.relname AS name,
        CASE WHEN length(s.spcname::text) > 0 OR c.relkind = 'p' THEN s.spcname ELSE (
            SELECT t.spcname FROM pg_database d JOIN pg_tablespace t ON d.dattablespace = t.oid
            WHERE d.datname = current_database()
        ) END AS spcname,
        CASE c.relreplident WHEN 'd' THEN 'default' WHEN 'n' THEN 'nothing' WHEN 'f' THEN 'full' END AS replica_identity,
        (SELECT nspname FROM pg_namespace WHERE oid = 2200::oid) AS schema,
        pg_get_userbyid(c.relowner) AS relowner, c.relhassubclass, d.description, k.conname, k.conkey,
        EXISTS (SELECT 1 FROM pg_trigger t JOIN pg_proc p ON p.oid = t.tgfoid AND p.proname = 'logtrigger'
                WHERE t.tgrelid = c.oid) AS replicated,
        (SELECT ARRAY(
            SELECT CASE WHEN n.nspname NOT LIKE 'pg\_%' THEN quote_ident(n.nspname) || '.' || quote_ident(p.relname)
                ELSE quote_ident(p.relname) END
            FROM pg_inherits i JOIN pg_class p ON p.oid = i.inhparent JOIN pg_namespace n ON n.oid = p.relnamespace
            WHERE i.inhrelid = c.oid ORDER BY i.inhseqno
        )) AS inherits,
        substring(array_to_string(c.reloptions, ',') FROM 'fillfactor=([0-9]*)') AS fillfactor,
        (substring(array_to_string(c.reloptions, ',') FROM 'autovacuum_enabled=([a-z|0-9]*)'))::BOOL AS autovacuum,
        c.reloptions, c.reloftype, c.relrowsecurity,
        (SELECT array_agg(l.provider || '=' || l.label) FROM pg_seclabels l
         WHERE l.objoid = c.oid AND l.objsubid = 0) AS seclabels,
        CASE WHEN c.oid <= 16383::oid THEN true ELSE false END AS is_sys_table
    FROM pg_class c
    LEFT OUTER JOIN pg_tablespace s ON s.oid = c.reltablespace
    LEFT OUTER JOIN pg_description d ON d.objoid = c.oid AND d.objsubid = 0 AND d.classoid = 'pg_class'::regclass
    LEFT OUTER JOIN pg_constraint k ON k.conrelid = c.oid AND k.contype = 'p'
    WHERE c.relkind IN ('r', 's', 't', 'p') AND c.relnamespace = 2200 AND c.oid = {cpu}::oid
) AS properties
ORDER BY name
;
SELECT DISTINCT a.attname AS name, a.attnum AS number, pg_catalog.format_type(t.oid, NULL) AS datatype,
    a.attnotnull AS not_null,
    CASE WHEN a.atthasdef OR a.attidentity != '' THEN True WHEN t.typdefault IS NOT NULL THEN True
        ELSE False END AS has_default_val, d.description, q.seqtypid
FROM pg_catalog.pg_attribute a
JOIN pg_catalog.pg_type t ON t.oid = a.atttypid
JOIN pg_catalog.pg_class c ON c.oid = a.attrelid
LEFT OUTER JOIN (pg_catalog.pg_depend p JOIN pg_catalog.pg_class s ON p.classid = 'pg_class'::regclass
    AND p.objid = s.oid AND s.relkind = 'S') ON p.refobjid = a.attrelid AND p.refobjsubid = a.attnum
LEFT OUTER JOIN pg_catalog.pg_description d ON d.objoid = a.attrelid AND d.objsubid = a.attnum
    AND d.classoid = 'pg_class'::regclass
LEFT OUTER JOIN pg_catalog.pg_sequence q ON s.oid = q.seqrelid
WHERE a.attrelid = {cpu}::oid AND a.attnum > 0 AND a.attisdropped IS FALSE
ORDER BY a.attnum
;
SELECT a.attname AS name, a.attnum, a.attlen, a.attndims, a.atttypmod, a.attnotnull, a.attstorage, a.attidentity,
    pg_catalog.pg_get_expr(v.adbin, v.adrelid) AS defval, pg_catalog.format_type(t.oid, a.atttypmod) AS cltype,
    CASE WHEN t.typelem > 0 THEN t.typelem ELSE t.oid END AS elemoid,
    (SELECT nspname FROM pg_catalog.pg_namespace WHERE oid = t.typnamespace) AS typnspname,
    (SELECT count(1) FROM pg_catalog.pg_type o WHERE o.typname = t.typname) > 1 AS isdup, i.indkey, d.description,
    CASE WHEN length(l.collname::text) > 0 AND length(n.nspname::text) > 0
        THEN pg_catalog.concat(pg_catalog.quote_ident(n.nspname), '.', pg_catalog.quote_ident(l.collname))
        ELSE '' END AS collspcname,
    EXISTS (SELECT 1 FROM pg_catalog.pg_constraint k WHERE k.conrelid = a.attrelid AND k.contype = 'f'
        AND a.attnum = ANY(k.conkey)) AS is_fk,
    (SELECT pg_catalog.array_agg(b.provider || '=' || b.label) FROM pg_catalog.pg_seclabels b
     WHERE b.objoid = a.attrelid AND b.objsubid = a.attnum) AS seclabels,
    CASE WHEN a.attidentity IN ('a', 'd') THEN 'i' WHEN a.attgenerated IN ('s') THEN 'g' ELSE 'n' END AS colconstype
FROM pg_catalog.pg_attribute a
JOIN pg_catalog.pg_type t ON t.oid = a.atttypid
LEFT OUTER JOIN pg_catalog.pg_attrdef v ON v.adrelid = a.attrelid AND v.adnum = a.attnum
LEFT OUTER JOIN pg_catalog.pg_description d ON d.objoid = a.attrelid AND d.objsubid = a.attnum
    AND d.classoid = 'pg_class'::regclass
LEFT OUTER JOIN pg_catalog.pg_index i ON i.indrelid = a.attrelid AND i.indisprimary
LEFT OUTER JOIN pg_catalog.pg_collation l ON a.attcollation = l.oid
LEFT OUTER JOIN pg_catalog.pg_namespace n ON l.collnamespace = n.oid
WHERE a.attrelid = {cpu}::oid AND a.attnum > 0 AND a.attisdropped IS FALSE
ORDER BY a.attnum
;
SELECT x.relname AS name, i.indnkeyatts AS col_count, k.condeferrable, k.condeferred, k.conislocal,
    substring(pg_catalog.array_to_string(x.reloptions, ',') FROM 'fillfactor=([0-9]*)') AS fillfactor
FROM pg_catalog.pg_index i
JOIN pg_catalog.pg_class x ON x.oid = i.indexrelid
LEFT JOIN pg_catalog.pg_depend p ON p.classid = x.tableoid AND p.objid = x.oid AND p.refobjsubid = '0'
    AND p.refclassid = (SELECT oid FROM pg_catalog.pg_class WHERE relname = 'pg_constraint') AND p.deptype = 'i'
LEFT OUTER JOIN pg_catalog.pg_constraint k ON k.tableoid = p.refclassid AND k.oid = p.refobjid
WHERE i.indrelid = {cpu}::oid AND k.contype = 'p'
ORDER BY x.relname
;
SELECT s.seq_scan >= 0 AS "Sequential scans", s.n_live_tup AS "Live tuples", o.heap_blks_read >= 0 AS "Blocks read",
    pg_catalog.pg_relation_size(s.relid) > 0 AS "Table size",
    COALESCE((SELECT SUM(pg_catalog.pg_relation_size(indexrelid)) FROM pg_catalog.pg_index
              WHERE indrelid = s.relid)::int8, 0) >= 0 AS "Indexes size"
FROM pg_catalog.pg_stat_all_tables s
JOIN pg_catalog.pg_statio_all_tables o ON s.relid = o.relid
WHERE s.relid = {cpu}::oid
;
SELECT d.datname AS "Database", d.numbackends > 0 AS "Backends", d.xact_commit >= 0 AS "Committed",
    c.confl_lock AS "Lock conflicts", pg_catalog.pg_size_pretty(pg_catalog.pg_database_size(d.datid)) <> '' AS "Size"
FROM pg_catalog.pg_stat_database d LEFT JOIN pg_catalog.pg_stat_database_conflicts c ON d.datid = c.datid
WHERE d.datid > 16383::OID
ORDER BY d.datname
;
SELECT 'sessions' AS chart_name, pg_catalog.row_to_json(t) AS chart_data FROM (
    SELECT (SELECT count(*) FROM pg_catalog.pg_stat_activity) > 0 AS "Total",
        (SELECT count(*) FROM pg_catalog.pg_stat_activity WHERE state = 'active') AS "Active"
) t
UNION ALL
SELECT 'transactions', pg_catalog.row_to_json(t) FROM (
    SELECT (SELECT sum(xact_commit) + sum(xact_rollback) FROM pg_catalog.pg_stat_database) >= 0 AS "Transactions"
) t
;
SELECT datname, usename, application_name, client_addr, state,
    pg_catalog.to_char(backend_start, 'YYYY TZ') AS backend_start,
    array_to_string(pg_catalog.pg_blocking_pids(pid), ', ') AS blocking_pids,
    CASE WHEN state = 'active' THEN ROUND((extract(epoch from now() - query_start) / 60)::numeric, 2) ELSE 0 END
        AS active_since
FROM pg_catalog.pg_stat_activity WHERE pid = pg_backend_pid()
;
SELECT l.pid, l.locktype, d.datname, l.relation::regclass, l.mode, l.granted FROM pg_catalog.pg_locks l
LEFT OUTER JOIN pg_catalog.pg_database d ON l.database = d.oid WHERE l.pid <> pg_backend_pid()
;
SELECT name, setting, unit FROM pg_catalog.pg_settings
WHERE name IN ('statement_timeout', 'TimeZone', 'standard_conforming_strings')
ORDER BY name
;
SELECT pg_catalog.pg_get_expr(v.adbin, v.adrelid) AS expression, p.deptype FROM pg_catalog.pg_depend p
JOIN pg_catalog.pg_attrdef v ON v.oid = p.objid WHERE p.refobjid = {cpu}::oid AND p.refobjsubid > 0
ORDER BY 1, 2
;
SELECT r.rolname AS refname, p.deptype FROM pg_catalog.pg_shdepend p
LEFT JOIN pg_catalog.pg_roles r ON p.refclassid = 1260 AND p.refobjid = r.oid WHERE p.objid = {cpu}::oid
ORDER BY 1
;
SELECT count(*) FROM public.tools_cpu
;
SELECT t.* FROM public.tools_cpu t
ORDER BY time ASC, host ASC
;
SELECT n.nspname AS schema_name,
    (n.nspname = 'pg_catalog' AND EXISTS (SELECT 1 FROM pg_catalog.pg_class WHERE relname = 'pg_class'
        AND relnamespace = n.oid LIMIT 1))
    OR (n.nspname = 'information_schema' AND EXISTS (SELECT 1 FROM pg_catalog.pg_class WHERE relname = 'tables'
        AND relnamespace = n.oid LIMIT 1)) AS is_catalog,
    CASE WHEN n.nspname = ANY('{information_schema}') THEN false ELSE true END AS db_support
FROM pg_catalog.pg_namespace n WHERE n.oid = 2200::OID
;
SELECT a.usename AS "User", a.datname AS "Database",
    CASE WHEN a.client_hostname IS NOT NULL AND a.client_hostname != '' THEN a.client_hostname
        WHEN a.client_addr IS NOT NULL AND a.client_addr::text != '' THEN a.client_addr::text
        WHEN a.client_port = -1 THEN 'local pipe' ELSE 'localhost' END AS "Client"
FROM pg_catalog.pg_stat_activity a
WHERE (SELECT r.rolsuper OR r.oid = a.usesysid FROM pg_catalog.pg_roles r WHERE r.rolname = current_user)
AND a.pid = pg_backend_pid()
UNION
SELECT r.usename, '', 'replica' FROM pg_catalog.pg_stat_replication r
WHERE (SELECT g.rolsuper OR g.oid = r.usesysid FROM pg_catalog.pg_roles g WHERE g.rolname = current_user)
;
SELECT DISTINCT ON (x.relname) x.relname AS name, i.indkey, i.indisunique, n.nspname, i.indnatts,
    COALESCE(CASE WHEN x.reltablespace <> 0 THEN s.spcname ELSE (
        SELECT t.spcname FROM pg_catalog.pg_database d JOIN pg_catalog.pg_tablespace t ON d.dattablespace = t.oid
        WHERE d.datname = current_database() LIMIT 1
    ) END, 'pg_default') AS spcname,
    (SELECT CASE WHEN count(h.inhrelid) > 0 THEN true ELSE false END FROM pg_catalog.pg_inherits h
     WHERE h.inhrelid = x.oid) AS is_inherited,
    (SELECT array_agg(DISTINCT e.extname) FROM pg_catalog.pg_depend p
     JOIN pg_catalog.pg_extension e ON p.refobjid = e.oid WHERE p.objid = x.oid) AS extensions,
    substring(array_to_string(x.reloptions, ',') FROM 'fillfactor=([0-9]*)')::int AS fillfactor
FROM pg_catalog.pg_index i
JOIN pg_catalog.pg_class x ON x.oid = i.indexrelid
JOIN pg_catalog.pg_class t ON t.oid = i.indrelid
JOIN pg_catalog.pg_namespace n ON n.oid = t.relnamespace
LEFT JOIN pg_catalog.pg_tablespace s ON s.oid = x.reltablespace
WHERE i.indrelid = {cpu}::oid
ORDER BY x.relname
;
SELECT a.attname AS name FROM (
    SELECT i.indnkeyatts, i.indrelid, pg_catalog.unnest(i.indkey) AS number,
        pg_catalog.unnest(ARRAY(SELECT pg_catalog.generate_series(1, i.indnatts) AS n)) AS place
    FROM pg_catalog.pg_index i WHERE i.indrelid = {cpu}::OID
) k JOIN pg_catalog.pg_attribute a ON a.attrelid = k.indrelid AND k.number = a.attnum
WHERE k.place <= k.indnkeyatts
ORDER BY k.place
;
SELECT COALESCE(g.rolname, 'PUBLIC') AS grantee, array_agg(p.privilege) AS privileges FROM (
    SELECT (x.acl).grantee AS grantee, (x.acl).privilege_type AS privilege, (x.acl).is_grantable AS grantable
    FROM (SELECT pg_catalog.aclexplode(c.relacl) AS acl FROM pg_catalog.pg_class c WHERE c.oid = {cpu}::OID) x
) p LEFT JOIN pg_catalog.pg_roles g ON p.grantee = g.oid
GROUP BY g.rolname
;
SELECT count(*) FROM pg_catalog.pg_aggregate a LEFT OUTER JOIN pg_catalog.pg_proc p ON p.oid = a.aggfnoid
WHERE p.pronamespace = 2200::oid
;
SELECT m.amname FROM pg_catalog.pg_am m WHERE m.amname = 'btree'
AND EXISTS (SELECT 1 FROM pg_catalog.pg_proc p WHERE p.oid = m.amhandler)
;
SELECT s.setting FROM pg_catalog.pg_show_all_settings() s WHERE s.name = 'statement_timeout'
;
SELECT c.relname, pg_catalog.pg_get_viewdef(c.oid, true) AS definition FROM pg_catalog.pg_class c
WHERE c.relhasrules AND EXISTS (SELECT r.rulename FROM pg_catalog.pg_rewrite r
    WHERE r.ev_class = c.oid AND bpchar(r.ev_type) = '1'::bpchar)
AND c.relkind = 'v'::char AND c.relnamespace = 2200
;
SELECT t.tgname AS name, t.xmin, t.tgenabled, COALESCE(
    pg_catalog.substring(pg_catalog.pg_get_triggerdef(t.oid, true), 'WHEN (.*) EXECUTE (PROCEDURE|FUNCTION)'),
    pg_catalog.substring(pg_catalog.pg_get_triggerdef(t.oid, true), 'WHEN (.*)  \$trigger')) AS whenclause,
    (pg_catalog.string_to_array(encode(t.tgargs, 'escape'), E'\\000')::text[])[1:t.tgnargs] AS arguments
FROM pg_catalog.pg_trigger t WHERE NOT t.tgisinternal AND t.tgrelid = {cpu}::OID
ORDER BY t.tgname
