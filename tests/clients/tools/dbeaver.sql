SET extra_float_digits = 3
;
SET application_name = 'DBeaver 25.1.5 - Main'
;
SELECT current_database(), current_schema(), session_user
;
SHOW search_path
;
SET search_path = "$user","public"
;
SELECT d.oid, d.* FROM pg_catalog.pg_database d WHERE d.datallowconn AND NOT d.datistemplate
ORDER BY d.datname
;
SELECT * FROM pg_catalog.pg_settings WHERE name = 'standard_conforming_strings'
;
SELECT string_agg(word, ',' ORDER BY word) AS words FROM pg_catalog.pg_get_keywords()
WHERE word <> ALL ('{absolute,action,select,table}'::text[]) AND word IN ('select', 'vacuum', 'verbose')
;
SELECT * FROM pg_catalog.pg_enum WHERE 1 <> 1 LIMIT 1
;
SELECT reltype FROM pg_catalog.pg_class WHERE 1 <> 1 LIMIT 1
;
SELECT n.oid, n.*, d.description FROM pg_catalog.pg_namespace n
LEFT OUTER JOIN pg_catalog.pg_description d ON d.objoid = n.oid AND d.objsubid = 0
    AND d.classoid = 'pg_namespace'::regclass
ORDER BY n.nspname
;
SELECT t.oid, t.*, c.relkind, format_type(nullif(t.typbasetype, 0), t.typtypmod) AS base_type_name
FROM pg_catalog.pg_type t
LEFT OUTER JOIN pg_catalog.pg_type e ON e.oid = t.typelem
LEFT OUTER JOIN pg_catalog.pg_class c ON c.oid = t.typrelid
WHERE t.typname IS NOT NULL AND (c.relkind IS NULL OR c.relkind = 'c')
AND (e.typcategory IS NULL OR e.typcategory <> 'C')
;
SELECT n.nspname = ANY(current_schemas(true)), n.nspname, t.typname FROM pg_catalog.pg_type t
JOIN pg_catalog.pg_namespace n ON t.typnamespace = n.oid WHERE t.oid = 1034
;
SELECT t.typinput = 'pg_catalog.array_in'::regproc AS is_array, t.typtype, t.typname, t.oid
FROM pg_catalog.pg_type t
LEFT JOIN (
    SELECT n.oid, p.place FROM pg_namespace n JOIN (
        SELECT s.place, (current_schemas(false))[s.place] AS nspname
        FROM generate_series(1, array_upper(current_schemas(false), 1)) AS s(place)
    ) p USING (nspname)
) path ON path.oid = t.typnamespace
WHERE t.typname = '_text'
ORDER BY path.place, t.oid DESC
;
SELECT c.oid, c.*, d.description, pg_catalog.pg_get_expr(c.relpartbound, c.oid) AS partition_expr,
    pg_catalog.pg_get_partkeydef(c.oid) AS partition_key
FROM pg_catalog.pg_class c
LEFT OUTER JOIN pg_catalog.pg_description d ON d.objoid = c.oid AND d.objsubid = 0
    AND d.classoid = 'pg_class'::regclass
WHERE c.relnamespace = 2200 AND c.relkind NOT IN ('i', 'I', 'c', 't')
ORDER BY c.relname
;
SELECT c.relname, a.*, pg_catalog.pg_get_expr(v.adbin, v.adrelid, true) AS def_value, d.description, o.objid
FROM pg_catalog.pg_attribute a
INNER JOIN pg_catalog.pg_class c ON a.attrelid = c.oid
LEFT OUTER JOIN pg_catalog.pg_attrdef v ON a.attrelid = v.adrelid AND a.attnum = v.adnum
LEFT OUTER JOIN pg_catalog.pg_description d ON c.oid = d.objoid AND a.attnum = d.objsubid
LEFT OUTER JOIN pg_catalog.pg_depend o ON o.refobjid = a.attrelid AND o.deptype = 'i'
    AND o.refobjsubid = a.attnum AND o.classid = o.refclassid
WHERE NOT a.attisdropped AND a.attnum > 0 AND c.oid = {cpu}
ORDER BY a.attnum
;
SELECT k.oid, k.*, t.relname AS tabrelname, f.relnamespace AS refnamespace, d.description,
    CASE WHEN k.contype = 'c' THEN "substring"(pg_get_constraintdef(k.oid), 7) ELSE NULL END AS consrc
FROM pg_catalog.pg_constraint k
INNER JOIN pg_catalog.pg_class t ON t.oid = k.conrelid
LEFT OUTER JOIN pg_catalog.pg_class f ON f.oid = k.confrelid
LEFT OUTER JOIN pg_catalog.pg_description d ON d.objoid = k.oid AND d.objsubid = 0
    AND d.classoid = 'pg_constraint'::regclass
WHERE k.conrelid = {cpu}
ORDER BY k.oid
;
SELECT i.*, i.indkey AS keys, c.relname, c.relnamespace, t.relname AS tabrelname, d.description,
    pg_catalog.pg_get_expr(i.indpred, i.indrelid) AS pred, pg_catalog.pg_get_expr(i.indexprs, i.indrelid, true) AS expr,
    pg_catalog.pg_relation_size(i.indexrelid) AS index_bytes, pg_catalog.pg_stat_get_numscans(i.indexrelid) AS scans
FROM pg_catalog.pg_index i
INNER JOIN pg_catalog.pg_class c ON c.oid = i.indexrelid
INNER JOIN pg_catalog.pg_class t ON t.oid = i.indrelid
LEFT OUTER JOIN pg_catalog.pg_description d ON i.indexrelid = d.objoid
WHERE i.indrelid = {cpu}
ORDER BY t.relname, c.relname
;
SELECT pg_catalog.pg_get_indexdef(i.indexrelid, 1, true) FROM pg_catalog.pg_index i WHERE i.indrelid = {cpu}
;
SELECT e.oid, n.nspname, e.* FROM pg_catalog.pg_extension e
JOIN pg_catalog.pg_namespace n ON n.oid = e.extnamespace
LEFT JOIN (
    SELECT array_agg(c.relname) AS tables, x.extension
    FROM (SELECT unnest(extconfig) AS oid, oid AS extension FROM pg_catalog.pg_extension) x
    JOIN pg_catalog.pg_class c ON c.oid = x.oid GROUP BY x.extension
) configured ON configured.extension = e.oid
WHERE e.extname <> 'plpgsql'
;
SELECT r.oid, r.*, d.description FROM pg_catalog.pg_roles r
LEFT JOIN pg_catalog.pg_shdescription d ON r.oid = d.objoid WHERE r.rolname !~ '^pg_'
ORDER BY r.rolname
;
SELECT t.oid, t.*, pg_tablespace_location(t.oid) AS loc FROM pg_catalog.pg_tablespace t
ORDER BY t.oid
;
SELECT c.oid, c.collname, c.collprovider FROM pg_catalog.pg_collation c WHERE c.collnamespace = 11
;
SELECT m.oid, m.amname, m.amtype FROM pg_catalog.pg_am m WHERE m.amtype = 'i'
;
SELECT s.id, pg_catalog.pg_encoding_to_char(s.id) AS name
FROM pg_catalog.generate_series(0, current_setting('max_identifier_length')::int) AS s(id) WHERE s.id IN (0, 6)
ORDER BY s.id
;
SELECT t.oid, t.*, p.proname, d.description FROM pg_catalog.pg_trigger t
INNER JOIN pg_catalog.pg_proc p ON p.oid = t.tgfoid
LEFT OUTER JOIN pg_catalog.pg_description d ON d.objoid = t.oid
WHERE t.tgrelid = {cpu}
;
SELECT r.oid, r.*, pg_get_ruledef(r.oid) AS definition FROM pg_catalog.pg_rewrite r WHERE r.ev_class = {cpu}
;
SELECT i.*, c.relnamespace FROM pg_catalog.pg_inherits i, pg_catalog.pg_class c
WHERE i.inhrelid = {cpu} AND c.oid = i.inhparent
ORDER BY i.inhseqno
;
SELECT c.oid, pg_catalog.pg_total_relation_size(c.oid) > 0 AS total, pg_catalog.pg_relation_size(c.oid) > 0 AS own
FROM pg_catalog.pg_class c WHERE c.relnamespace = 2200 AND c.relkind = 'r'
;
SELECT * FROM information_schema.table_privileges WHERE table_schema = 'public' AND table_name = 'tools_cpu'
ORDER BY privilege_type
;
SELECT p.oid, p.*, l.lanname, d.description FROM pg_catalog.pg_proc p
LEFT OUTER JOIN pg_catalog.pg_language l ON l.oid = p.prolang
LEFT OUTER JOIN pg_catalog.pg_description d ON d.objoid = p.oid
WHERE p.pronamespace = 2200
ORDER BY p.proname
;
SELECT pid, usename, datname, application_name, client_addr, state FROM pg_catalog.pg_stat_activity
WHERE pid = pg_backend_pid()
;
SELECT DISTINCT a.attname, a.atttypid, c.relnamespace FROM pg_catalog.pg_attribute a, pg_catalog.pg_class c
WHERE c.oid = a.attrelid AND a.attname ILIKE 'ho%' AND c.relnamespace IN (2200)
ORDER BY a.attname LIMIT 200
;
EXPLAIN SELECT * FROM public.tools_cpu
