-- The roles of docker-compose.yml besides the administrator. compose/setup makes the role `grafana`, which
-- has a password.

-- Prometheus and Telegraf have tokens, and no password. Each may write into one schema.
CREATE ROLE prometheus LOGIN;
CREATE SCHEMA prometheus;
GRANT USAGE, CREATE ON SCHEMA prometheus TO prometheus;
-- /metrics is for roles that watch the server.
GRANT pg_monitor TO prometheus;

CREATE ROLE telegraf LOGIN;
CREATE SCHEMA telegraf;
GRANT USAGE, CREATE ON SCHEMA telegraf TO telegraf;

-- Grafana only reads: the tables of today, and the tables that come later.
GRANT USAGE ON SCHEMA public TO grafana;
GRANT USAGE ON SCHEMA prometheus TO grafana;
GRANT USAGE ON SCHEMA telegraf TO grafana;
GRANT SELECT ON ALL TABLES IN SCHEMA public TO grafana;
ALTER DEFAULT PRIVILEGES IN SCHEMA public GRANT SELECT ON TABLES TO grafana;
ALTER DEFAULT PRIVILEGES FOR ROLE prometheus IN SCHEMA prometheus GRANT SELECT ON TABLES TO grafana;
ALTER DEFAULT PRIVILEGES FOR ROLE telegraf IN SCHEMA telegraf GRANT SELECT ON TABLES TO grafana;
-- The dashboard of the server reads tables of the schema `stratalog`.
GRANT pg_monitor TO grafana;
