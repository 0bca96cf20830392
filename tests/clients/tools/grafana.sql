SELECT current_setting('server_version_num')::int / 100 AS version
;
SELECT extversion FROM pg_extension WHERE extname = 'timescaledb'
;
SELECT schema_name AS "name" FROM information_schema.schemata
WHERE schema_name NOT IN ('pg_catalog', 'information_schema', 'pg_toast')
ORDER BY schema_name
;
SELECT quote_ident(table_name) AS "table" FROM information_schema.tables
WHERE quote_ident(table_schema) = 'public'
ORDER BY 1
;
WITH seen AS (
    SELECT quote_ident(table_schema) AS place, quote_ident(table_name) AS thing FROM information_schema.tables
)
SELECT CASE WHEN place IN (
    SELECT CASE trim(part[place]) WHEN '"$user"' THEN user ELSE trim(part[place]) END
    FROM string_to_array(current_setting('search_path'), ',') AS part, generate_series(
        array_lower(string_to_array(current_setting('search_path'), ','), 1),
        array_upper(string_to_array(current_setting('search_path'), ','), 1)
    ) AS place
)
THEN thing ELSE place || '.' || thing END AS "table" FROM seen
WHERE place NOT IN ('information_schema', 'pg_catalog', 'stratalog')
ORDER BY 1
;
SELECT data_type AS "type", quote_ident(column_name) AS "column" FROM information_schema.columns
WHERE CASE array_length(parse_ident('tools_cpu'), 1)
    WHEN 2 THEN quote_ident(table_schema) || '.' || quote_ident(table_name)
        = (parse_ident('tools_cpu'))[1] || '.' || (parse_ident('tools_cpu'))[2]
    ELSE quote_ident(table_name) = 'tools_cpu' AND quote_ident(table_schema) IN (
    SELECT CASE trim(part[place]) WHEN '"$user"' THEN user ELSE trim(part[place]) END
    FROM string_to_array(current_setting('search_path'), ',') AS part, generate_series(
        array_lower(string_to_array(current_setting('search_path'), ','), 1),
        array_upper(string_to_array(current_setting('search_path'), ','), 1)
    ) AS place
)
END
ORDER BY ordinal_position
;
SELECT data_type AS "type", quote_ident(column_name) AS "column" FROM information_schema.columns
WHERE CASE WHEN array_length(parse_ident('public.tools_cpu'), 1) <> 2 THEN quote_ident(table_name) = 'public.tools_cpu'
    ELSE quote_ident(table_name) = (parse_ident('public.tools_cpu'))[2]
        AND quote_ident(table_schema) = (parse_ident('public.tools_cpu'))[1] END
ORDER BY ordinal_position
;
SELECT "time" AS "time", usage AS "usage" FROM tools_cpu
WHERE "time" BETWEEN '2023-12-31T00:00:00Z' AND '2024-01-02T00:00:00.123Z'
ORDER BY 1 LIMIT 50
;
SELECT floor(extract(epoch from "time") / 10) * 10 AS "time", host AS metric, avg(usage) AS "usage"
FROM tools_cpu
WHERE "time" BETWEEN '2023-12-31T00:00:00Z' AND '2024-01-02T00:00:00Z'
GROUP BY 1, 2
ORDER BY 1, 2
;
SELECT extract(epoch from "time") AS "time", usage FROM tools_cpu
WHERE extract(epoch from "time") >= 1704067200 AND extract(epoch from "time") <= 1704067300
ORDER BY 1
;
SELECT to_timestamp(floor(extract(epoch from "time") / 60) * 60) AS "time", count(*) AS value
FROM tools_cpu GROUP BY 1
ORDER BY 1
;
SELECT DISTINCT(host) FROM tools_cpu
ORDER BY 1
;
SELECT host AS "__text", lower(host) AS "__value" FROM tools_cpu GROUP BY host
ORDER BY 1
