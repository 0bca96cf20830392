SELECT pg_catalog.version()
;
SELECT current_schema()
;
SHOW transaction isolation level
;
SHOW standard_conforming_strings
;
SET search_path = "public"
;
SELECT datname FROM pg_database WHERE datistemplate = false
;
SELECT nspname FROM pg_namespace WHERE nspname NOT LIKE 'pg_%'
ORDER BY nspname
;
SELECT pg_catalog.pg_class.relname FROM pg_catalog.pg_class
JOIN pg_catalog.pg_namespace ON pg_catalog.pg_namespace.oid = pg_catalog.pg_class.relnamespace
WHERE pg_catalog.pg_class.relkind = ANY (ARRAY['r', 'p'])
AND pg_catalog.pg_class.relpersistence != 't' AND pg_catalog.pg_namespace.nspname = 'public'
;
SELECT c.relname FROM pg_catalog.pg_class AS c JOIN pg_catalog.pg_namespace AS n ON n.oid = c.relnamespace
WHERE c.relkind = ANY (ARRAY['f', 'v', 'm']) AND pg_catalog.pg_table_is_visible(c.oid)
AND n.nspname != 'pg_catalog'
;
SELECT a.attname AS name, pg_catalog.format_type(a.atttypid, a.atttypmod) AS format_type,
    (SELECT pg_catalog.pg_get_expr(d.adbin, d.adrelid) FROM pg_catalog.pg_attrdef AS d
     WHERE d.adrelid = a.attrelid AND d.adnum = a.attnum AND a.atthasdef) AS "default",
    a.attnotnull AS not_null, c.relname AS table_name, s.description AS comment,
    a.attgenerated AS generated,
    (SELECT json_build_object('always', a.attidentity = 'a', 'start', q.seqstart, 'increment', q.seqincrement,
        'minvalue', q.seqmin, 'maxvalue', q.seqmax, 'cache', q.seqcache, 'cycle', q.seqcycle)
     FROM pg_catalog.pg_sequence AS q
     WHERE a.attidentity != ''
     AND q.seqrelid = CAST(CAST(pg_catalog.pg_get_serial_sequence(
         CAST(CAST(a.attrelid AS REGCLASS) AS TEXT), a.attname) AS REGCLASS) AS OID)) AS identity_options
FROM pg_catalog.pg_class AS c
LEFT OUTER JOIN pg_catalog.pg_attribute AS a ON c.oid = a.attrelid AND a.attnum > 0 AND NOT a.attisdropped
LEFT OUTER JOIN pg_catalog.pg_description AS s ON s.objoid = a.attrelid AND s.objsubid = a.attnum
    AND s.classoid = CAST('pg_catalog.pg_class' AS REGCLASS)
JOIN pg_catalog.pg_namespace AS n ON n.oid = c.relnamespace
WHERE c.relkind = ANY (ARRAY['r', 'p', 'f', 'v', 'm']) AND n.nspname = 'public' AND c.relname IN ('tools_cpu')
ORDER BY c.relname, a.attnum
;
SELECT keys.conrelid, array_agg(CAST(keys.attname AS TEXT) ORDER BY keys.ord) AS cols, keys.conname,
    min(keys.description) AS description
FROM (
    SELECT k.conrelid, k.conname, k.description, k.ord, a.attname
    FROM pg_catalog.pg_attribute AS a JOIN (
        SELECT p.conrelid, p.conname, unnest(p.conkey) AS attnum,
            generate_subscripts(p.conkey, 1) AS ord, d.description
        FROM pg_catalog.pg_constraint AS p
        LEFT OUTER JOIN pg_catalog.pg_description AS d ON d.objoid = p.oid
        WHERE p.contype = 'p' AND p.conrelid IN ({cpu})
    ) AS k ON a.attnum = k.attnum AND a.attrelid = k.conrelid
) AS keys
GROUP BY keys.conrelid, keys.conname
ORDER BY keys.conrelid, keys.conname
;
SELECT c.relname, r.conname, pg_catalog.pg_get_constraintdef(r.oid, true) AS condef, n.nspname
FROM pg_catalog.pg_class AS c
LEFT OUTER JOIN pg_catalog.pg_constraint AS r ON c.oid = r.conrelid AND r.contype = 'f'
LEFT OUTER JOIN pg_catalog.pg_class AS f ON f.oid = r.confrelid
LEFT OUTER JOIN pg_catalog.pg_namespace AS n ON f.relnamespace = n.oid
WHERE c.relname IN ('tools_cpu')
;
SELECT i.indrelid, k.relname, i.indisunique, i.indoption, i.indnkeyatts,
    pg_catalog.pg_get_expr(i.indpred, i.indrelid) AS filter, m.amname, k.reloptions,
    r.conrelid IS NOT NULL AS has_constraint, e.elements
FROM pg_catalog.pg_index AS i
JOIN pg_catalog.pg_class AS k ON i.indexrelid = k.oid
JOIN pg_catalog.pg_am AS m ON k.relam = m.oid
LEFT OUTER JOIN (
    SELECT x.indexrelid, array_agg(CASE WHEN x.attnum = 0
        THEN pg_catalog.pg_get_indexdef(x.indexrelid, x.ord + 1, true) ELSE CAST(a.attname AS TEXT) END
        ORDER BY x.ord) AS elements
    FROM (SELECT indexrelid, indrelid, unnest(indkey) AS attnum, generate_subscripts(indkey, 1) AS ord
          FROM pg_catalog.pg_index WHERE NOT indisprimary) AS x
    LEFT OUTER JOIN pg_catalog.pg_attribute AS a ON a.attnum = x.attnum AND a.attrelid = x.indrelid
    GROUP BY x.indexrelid
) AS e ON e.indexrelid = i.indexrelid
LEFT OUTER JOIN pg_catalog.pg_constraint AS r ON i.indrelid = r.conrelid AND i.indexrelid = r.conindid
    AND r.contype = ANY (ARRAY['p', 'u', 'x'])
WHERE i.indrelid IN ({cpu})
;
SELECT c.relname, d.description FROM pg_catalog.pg_class AS c
LEFT OUTER JOIN pg_catalog.pg_description AS d ON c.oid = d.objoid AND d.objsubid = 0
    AND d.classoid = CAST('pg_catalog.pg_class' AS REGCLASS)
JOIN pg_catalog.pg_namespace AS n ON n.oid = c.relnamespace
WHERE c.relkind = ANY (ARRAY['r', 'p']) AND n.nspname = 'public'
ORDER BY 1
;
SELECT t.typname, array_agg(e.enumlabel ORDER BY e.enumsortorder) AS labels
FROM pg_catalog.pg_type AS t LEFT JOIN pg_catalog.pg_enum AS e ON e.enumtypid = t.oid
WHERE t.typtype = 'e' GROUP BY t.typname
;
SELECT DATE_TRUNC('hour', time) AS __timestamp, host AS host, AVG(usage) AS "AVG(usage)"
FROM public.tools_cpu
WHERE time >= TO_TIMESTAMP('2024-01-01 00:00:00.000000', 'YYYY-MM-DD HH24:MI:SS.US')
AND time < TO_TIMESTAMP('2024-02-01 00:00:00.000000', 'YYYY-MM-DD HH24:MI:SS.US')
GROUP BY DATE_TRUNC('hour', time), host
ORDER BY "AVG(usage)" DESC NULLS LAST, host LIMIT 1000
;
SELECT DATE_TRUNC('week', time) AS week, DATE_TRUNC('quarter', time) AS quarter, COUNT(*) AS count
FROM public.tools_cpu WHERE time >= TO_DATE('2024-01-01', 'YYYY-MM-DD') GROUP BY 1, 2
ORDER BY 1
;
SELECT count(*) AS rowcount FROM (SELECT host, count(DISTINCT region) AS r FROM public.tools_cpu GROUP BY host) AS rowcount_qry
;
SELECT (timestamp 'epoch' + n * interval '1 second') AS t FROM public.tools_log
ORDER BY 1
;
SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid = '0'
