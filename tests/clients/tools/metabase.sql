SET extra_float_digits = 2
;
SET application_name = 'Metabase v0.55.1'
;
SHOW TRANSACTION ISOLATION LEVEL
;
SET SESSION CHARACTERISTICS AS TRANSACTION ISOLATION LEVEL READ UNCOMMITTED
;
show timezone
;
SET SESSION TIMEZONE TO 'UTC'
;
SELECT s.nspname AS "TABLE_SCHEM", current_database() AS "TABLE_CATALOG" FROM pg_catalog.pg_namespace s
WHERE NOT s.nspname = 'pg_toast'
AND (s.nspname = (pg_catalog.current_schemas(true))[1] OR s.nspname !~ '^pg_temp_')
AND (s.nspname = replace((pg_catalog.current_schemas(true))[1], 'pg_temp_', 'pg_toast_temp_') OR s.nspname !~ '^pg_toast_temp_')
ORDER BY "TABLE_SCHEM"
;
WITH visible AS (
    SELECT schemaname AS place, tablename AS thing FROM pg_catalog.pg_tables
    UNION SELECT schemaname, viewname FROM pg_catalog.pg_views
    UNION SELECT schemaname, matviewname FROM pg_catalog.pg_matviews
), quoted AS (
    SELECT NULL AS role, v.place, v.thing,
        '"' || replace(v.place, '"', '""') || '"."' || replace(v.thing, '"', '""') || '"' AS whole FROM visible v
    WHERE v.place !~ '^pg_' AND v.place <> 'information_schema'
    AND pg_catalog.has_schema_privilege(current_user, v.place, 'usage')
)
SELECT q.role, q.place, q.thing, pg_catalog.has_any_column_privilege(current_user, q.whole, 'select') AS "select",
    pg_catalog.has_any_column_privilege(current_user, q.whole, 'insert') AS "insert"
FROM quoted q WHERE q.place <> 'stratalog'
;
SELECT "s"."nspname" AS "place", "r"."relname" AS "thing", "u"."n_live_tup" AS "rows", "t"."description" AS "remark",
    CASE "r"."relkind" WHEN 'v' THEN 'VIEW' WHEN 'm' THEN 'MATERIALIZED VIEW' WHEN 'f' THEN 'FOREIGN TABLE'
        WHEN 'r' THEN 'TABLE' WHEN 'p' THEN 'PARTITIONED TABLE' ELSE NULL END AS "kind"
FROM "pg_catalog"."pg_namespace" AS "s"
INNER JOIN "pg_catalog"."pg_class" AS "r" ON "s"."oid" = "r"."relnamespace"
LEFT JOIN "pg_stat_user_tables" AS "u" ON ("r"."relname" = "u"."relname") AND ("s"."nspname" = "u"."schemaname")
LEFT JOIN "pg_catalog"."pg_description" AS "t" ON ("t"."objsubid" = '0') AND ("t"."objoid" = "r"."oid")
    AND ("t"."classoid" = 'pg_class'::regclass)
WHERE r.relkind IN ('v', 'm', 'f', 'r', 'p') AND ("s"."nspname" IN ('public')) AND ("s"."nspname" !~ '^pg_')
ORDER BY "kind" ASC, "place" ASC, "thing" ASC
;
SELECT n.nspname, t.typname FROM pg_type t JOIN pg_namespace n ON n.oid = t.typnamespace
WHERE t.oid IN (SELECT DISTINCT e.enumtypid FROM pg_enum e)
;
SELECT "f"."table_name" AS "thing", "f"."ordinal_position" - 1 AS "place", "f"."column_name" AS "field",
    CASE WHEN "f"."udt_schema" IN ('public', 'pg_catalog') THEN FORMAT('%s', "f"."udt_name")
        ELSE FORMAT('"%s"."%s"', "f"."udt_schema", "f"."udt_name") END AS "type",
    "key"."column_name" IS NOT NULL AS "key?",
    COL_DESCRIPTION(CAST(CAST(FORMAT('%I.%I', CAST("f"."table_schema" AS TEXT), CAST("f"."table_name" AS TEXT))
        AS REGCLASS) AS OID), "f"."ordinal_position") AS "remark",
    "is_nullable" = 'NO' AND ("column_default" IS NULL OR LOWER("column_default") = 'null')
        AND NOT ("is_identity" <> 'NO' OR "column_default" LIKE '%nextval(%') AS "required"
FROM "information_schema"."columns" AS "f"
LEFT JOIN (
    SELECT "k"."table_schema", "k"."table_name", "k"."column_name"
    FROM "information_schema"."key_column_usage" AS "k"
    INNER JOIN "information_schema"."table_constraints" AS "c"
        ON ("c"."table_name" = "k"."table_name") AND ("c"."table_schema" = "k"."table_schema")
        AND ("c"."constraint_name" = "k"."constraint_name")
    WHERE "c"."constraint_type" = 'PRIMARY KEY'
) AS "key" ON ("key"."column_name" = "f"."column_name") AND ("key"."table_name" = "f"."table_name")
    AND ("key"."table_schema" = "f"."table_schema")
WHERE ("f"."table_schema" IN ('public')) AND f.table_schema !~ '^pg_|information_schema'
UNION ALL
SELECT "m"."relname", "a"."attnum" - 1, "a"."attname", FORMAT('%s', "t"."typname"), FALSE, NULL, FALSE
FROM "pg_catalog"."pg_attribute" AS "a"
INNER JOIN "pg_catalog"."pg_class" AS "m" ON "a"."attrelid" = "m"."oid"
INNER JOIN "pg_catalog"."pg_type" AS "t" ON "t"."oid" = "a"."atttypid"
WHERE ("a"."attnum" >= 1) AND ("m"."relkind" = 'm')
ORDER BY "thing" ASC, "place" ASC
;
SELECT "t"."relname" AS "from table", "a"."attname" AS "from field", "u"."relname" AS "to table", "b"."attname" AS "to field"
FROM "pg_constraint" AS "k"
INNER JOIN "pg_namespace" AS "s" ON "s"."oid" = "k"."connamespace"
INNER JOIN "pg_class" AS "t" ON "t"."oid" = "k"."conrelid"
INNER JOIN "pg_class" AS "u" ON "u"."oid" = "k"."confrelid"
INNER JOIN "pg_attribute" AS "a" ON "a"."attrelid" = "k"."conrelid"
INNER JOIN "pg_attribute" AS "b" ON "b"."attrelid" = "k"."confrelid"
WHERE ("k"."contype" = 'f'::char) AND ("a"."attnum" = ANY(k.conkey)) AND ("b"."attnum" = ANY(k.confkey))
AND ("s"."nspname" IN ('public'))
ORDER BY 1 ASC, 2 ASC
;
SELECT "x"."thing", TRIM(BOTH '"' FROM "pg_catalog".PG_GET_INDEXDEF("x"."number", "x"."place", FALSE)) AS "field"
FROM (
    SELECT "t"."relname" AS "thing", "i"."indexrelid" AS "number", (INFORMATION_SCHEMA._PG_EXPANDARRAY("i"."indkey"))."n" AS "place"
    FROM "pg_catalog"."pg_index" AS "i"
    INNER JOIN "pg_catalog"."pg_class" AS "t" ON "t"."oid" = "i"."indrelid"
    WHERE "t"."relnamespace" = 2200 AND "pg_catalog".PG_GET_EXPR("i"."indpred", "i"."indrelid") IS NULL
) AS "x"
WHERE "x"."place" = 1
;
SELECT TRUE AS "_" FROM "public"."tools_cpu" WHERE 1 <> 1 LIMIT 0
;
SELECT "public"."tools_cpu"."time" AS "time", "public"."tools_cpu"."host" AS "host",
    SUBSTRING("public"."tools_cpu"."region", 1, 1234) AS "substring"
FROM "public"."tools_cpu"
ORDER BY "public"."tools_cpu"."time" ASC LIMIT 10000
;
SELECT DATE_TRUNC('month', "public"."tools_cpu"."time") AS "time", COUNT(*) AS "count"
FROM "public"."tools_cpu" GROUP BY DATE_TRUNC('month', "public"."tools_cpu"."time")
ORDER BY DATE_TRUNC('month', "public"."tools_cpu"."time") ASC
;
SELECT CAST(DATE_TRUNC('week', "time" + INTERVAL '1 day') + INTERVAL '-1 day' AS date) AS week,
    CAST(extract(dow from "time") AS integer) + 1 AS day, CAST(extract(doy from "time") AS integer) AS doy,
    make_time(extract(hour from "time")::integer, 0, 0.0) AS hour
FROM "public"."tools_cpu"
ORDER BY "time"
;
SELECT COUNT(*) AS "count", COUNT(DISTINCT "host") AS "hosts",
    PERCENTILE_CONT(0.5) WITHIN GROUP (ORDER BY "usage") AS "median", STDDEV_POP("usage") AS "deviation"
FROM "public"."tools_cpu"
WHERE ("time" >= DATE_TRUNC('day', TIMESTAMP WITH TIME ZONE '2024-01-03 00:00:00Z' + INTERVAL '-30 day'))
AND ("time" < timestamp with time zone '2024-02-01 00:00:00.000Z')
;
SELECT CAST(extract(year from age(date_trunc('day', timestamp '2024-01-01'), date_trunc('day', timestamp '2020-05-01'))) AS integer) AS years,
    CAST('2024-01-01' AS DATE) - CAST('2023-01-01' AS DATE) AS days,
    timezone('Europe/Berlin', timezone('UTC', timestamp '2024-01-01')) AS local,
    substring('abc123' FROM '[0-9]+') AS digits, to_timestamp(1700000000) AS moment
