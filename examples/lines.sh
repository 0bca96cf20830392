#!/bin/sh
# Writes lines like Telegraf and other collectors, and reads the rows by SQL.
# sh examples/lines.sh [http://host:port]
set -eu
server=${1:-http://127.0.0.1:8086}

# Tags and the time are the key of the table. The server makes tables and columns.
curl -sSf "$server/write?precision=s" --data-binary '
weather,station=hill temperature=4.5,humidity=81i 1704067200
weather,station=hill temperature=4.1,humidity=83i 1704070800
weather,station=lake temperature=6.0 1704067200
'
# A later line with the same tags and time adds its fields to the row.
curl -sSf "$server/write?precision=s" --data-binary 'weather,station=lake wind=3.2 1704067200'

curl -sSf "$server/api/sql?format=csv" --data "
SELECT station, count(*) AS rows, avg(temperature) AS temperature, max(wind) AS wind
FROM weather GROUP BY station ORDER BY station"
