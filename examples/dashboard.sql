-- A table of measurements, and the queries of a dashboard.
-- psql -h 127.0.0.1 -p 5433 -d stratalog -f examples/dashboard.sql

DROP TABLE IF EXISTS cpu;
DROP TABLE IF EXISTS deployments;

-- The last column of the key is the time, the other columns are the series.
-- A second row with the same host and time replaces the first row.
CREATE TABLE cpu (
    time timestamptz NOT NULL,
    host text NOT NULL,
    usage double precision,
    PRIMARY KEY (host, time)
) WITH (collision = 'last', retention = '90d');

CREATE TABLE deployments (
    time timestamptz NOT NULL,
    host text NOT NULL,
    version text,
    PRIMARY KEY (host, time)
);

-- Six hours of three hosts, one row each ten seconds.
INSERT INTO cpu
SELECT now() - n * interval '10 seconds', 'host' || h, 50 + 40 * sin(n / 100.0 + h)
FROM generate_series(0, 2159) AS n, generate_series(1, 3) AS h;

INSERT INTO deployments VALUES
    (now() - interval '7 hours', 'host1', '1.0'),
    (now() - interval '2 hours', 'host1', '1.1'),
    (now() - interval '7 hours', 'host2', '1.0');

-- Averages and maxima of each hour and host.
SELECT time_bucket(interval '1 hour', time) AS hour, host, round(avg(usage)::numeric, 1) AS avg, round(max(usage)::numeric, 1) AS max
FROM cpu
WHERE time >= now() - interval '3 hours'
GROUP BY hour, host
ORDER BY hour, host;

-- The newest row of each host.
SELECT DISTINCT ON (host) host, time, round(usage::numeric, 1) AS usage
FROM cpu
ORDER BY host, time DESC;

-- The version of each host at the time of its maximum: an as-of join.
SELECT peak.host, round(peak.usage::numeric, 1) AS usage, d.version
FROM (SELECT DISTINCT ON (host) host, time, usage FROM cpu ORDER BY host, usage DESC) AS peak
LEFT JOIN LATERAL (
    SELECT version FROM deployments
    WHERE deployments.host = peak.host AND deployments.time <= peak.time
    ORDER BY deployments.time DESC LIMIT 1
) AS d ON true
ORDER BY peak.host;

-- The parts of the table, with their tiers and bytes.
SELECT tier, rows, bytes FROM stratalog.pieces WHERE name = 'cpu';
