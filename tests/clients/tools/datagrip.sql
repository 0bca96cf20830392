SET extra_float_digits = 3
;
SET application_name = ''
;
SET application_name = 'DataGrip 2025.2.3'
;
select current_database() as a, current_schemas(false) as b
;
select current_database(), current_schema(), current_user
;
SHOW TRANSACTION ISOLATION LEVEL
;
show DateStyle
;
select round(extract(epoch from pg_postmaster_start_time() at time zone 'UTC')) > 0 as startup_time
;
select ssl from pg_stat_ssl where pid = pg_backend_pid()
;
select l.transactionid::varchar::bigint as transaction_id from pg_catalog.pg_locks l
where l.transactionid is not null and l.pid <> pg_backend_pid()
order by pg_catalog.age(l.transactionid) desc limit 1
;
select case when pg_catalog.pg_is_in_recovery() then null
    else (pg_catalog.txid_current() % 4294967296)::varchar::bigint end > 0 as current_txid
;
select d.oid::bigint as id, d.datname as name, s.description, d.datistemplate as is_template,
    d.datallowconn as allow_connections, pg_catalog.pg_get_userbyid(d.datdba) as "owner"
from pg_catalog.pg_database d left join pg_catalog.pg_shdescription s on d.oid = s.objoid
where d.datname = current_database()
order by case when d.datname = pg_catalog.current_database() then -1::bigint else d.oid::bigint end
;
select n.oid::bigint as id, n.xmin as state_number, n.nspname as name, s.description,
    pg_catalog.pg_get_userbyid(n.nspowner) as "owner"
from pg_catalog.pg_namespace n left join pg_catalog.pg_description s on n.oid = s.objoid
order by case when n.nspname = pg_catalog.current_schema() then -1::bigint else n.oid::bigint end
;
select name, is_dst from pg_catalog.pg_timezone_names where name in ('UTC', 'Asia/Tokyo')
union distinct
select abbrev as name, is_dst from pg_catalog.pg_timezone_abbrevs where abbrev = 'UTC'
;
select r.oid::bigint as role_id, rolname as role_name, rolsuper is_super, rolinherit is_inherit,
    rolcreaterole can_createrole, rolcreatedb can_createdb, rolcanlogin can_login, rolreplication is_replication,
    rolconnlimit conn_limit, rolvaliduntil valid_until, rolbypassrls bypass_rls, rolconfig config, s.description
from pg_catalog.pg_roles r left join pg_catalog.pg_shdescription s on s.objoid = r.oid
where rolname = current_user
;
select member id, roleid role_id, admin_option from pg_catalog.pg_auth_members
where member = (select oid from pg_catalog.pg_roles where rolname = current_user)
order by id, roleid::text
;
select t.oid::bigint as id, t.spcname as name, t.xmin as state_number,
    pg_catalog.pg_get_userbyid(t.spcowner) as owner, pg_catalog.pg_tablespace_location(t.oid) as location,
    t.spcoptions as options, s.description as comment
from pg_catalog.pg_tablespace t left join pg_catalog.pg_shdescription s on s.objoid = t.oid
order by id
;
select t.oid as object_id, t.spcacl as acl from pg_catalog.pg_tablespace t
union all
select d.oid as object_id, d.datacl as acl from pg_catalog.pg_database d where d.datname = current_database()
;
select max(last_tx) > 0 as state_number from (
    select max(xmin::varchar::bigint) as last_tx from pg_catalog.pg_type where typnamespace = oid(2200)
    union all select max(xmin::varchar::bigint) from pg_catalog.pg_class where relnamespace = oid(2200)
    union all select max(xmin::varchar::bigint) from pg_catalog.pg_proc where pronamespace = oid(2200)
    union all select max(xmin::varchar::bigint) from pg_catalog.pg_operator where oprnamespace = oid(2200)
    union all select max(a.xmin::varchar::bigint) from pg_catalog.pg_attribute a
        join pg_catalog.pg_class c on c.oid = a.attrelid where c.relnamespace = oid(2200)
    union all select max(xmin::varchar::bigint) from pg_catalog.pg_constraint where connamespace = oid(2200)
) seen
;
select t.relkind as table_kind, t.relname as table_name, t.oid as table_id, t.xmin as state_number,
    t.reltablespace as tablespace_id, t.reloptions as options, t.relpersistence as persistence,
    (select pg_catalog.array_agg(i.inhparent::bigint order by i.inhseqno)::varchar
     from pg_catalog.pg_inherits i where t.oid = i.inhrelid) as ancestors,
    t.relispartition as is_partition, pg_catalog.pg_get_partkeydef(t.oid) as partition_key,
    pg_catalog.pg_get_expr(t.relpartbound, t.oid) as partition_expression, t.relam as am_id,
    pg_catalog.pg_get_userbyid(t.relowner) as "owner"
from pg_catalog.pg_class t
where t.relnamespace = 2200::oid and t.relkind in ('r', 'm', 'v', 'f', 'p')
order by table_kind, table_name
;
with t as (
    select distinct c.oid as table_id, c.relname as table_name from pg_catalog.pg_class c, pg_catalog.pg_attribute a
    where c.relnamespace = 2200::oid and c.relkind in ('r', 'm', 'v', 'f', 'p') and a.attrelid = c.oid
)
select t.table_name, a.attnum as column_position, a.attname as column_name, a.xmin as state_number,
    a.atttypmod as type_mod, a.attndims as dimensions_number,
    pg_catalog.format_type(a.atttypid, a.atttypmod) as type_spec, a.atttypid as type_id, a.attnotnull as mandatory,
    pg_catalog.pg_get_expr(d.adbin, t.table_id) as column_default_expression, not a.attislocal as is_inherited,
    a.attfdwoptions as options, a.attisdropped as is_dropped, a.attidentity as identity_kind, a.attgenerated as generated
from t join pg_catalog.pg_attribute a on t.table_id = a.attrelid
left join pg_catalog.pg_attrdef d on (a.attrelid, a.attnum) = (d.adrelid, d.adnum)
where a.attnum > 0 and not a.attisdropped
order by table_name, column_position
;
select t.relkind as table_kind, c.relname as index_name, i.indexrelid as index_id, c.xmin as state_number,
    i.indisunique as is_unique, i.indisprimary as is_primary, i.indnullsnotdistinct as nulls_not_distinct,
    pg_catalog.pg_get_expr(i.indpred, i.indrelid) as condition, c.reltablespace as tablespace_id,
    o.opcmethod as access_method_id
from pg_catalog.pg_class t
join pg_catalog.pg_index i on i.indrelid = t.oid
join pg_catalog.pg_class c on t.relnamespace = c.relnamespace and c.oid = i.indexrelid
left join pg_catalog.pg_opclass o on o.oid = any(i.indclass)
where t.relnamespace = 2200::oid and t.relkind in ('r', 'm', 'v', 'p') and c.relkind in ('i', 'I')
;
select i.indexrelid as index_id, k as place, k <= i.indnkeyatts as in_key, i.indkey[k - 1] as column_position,
    i.indoption[k - 1] as options, l.collname, p.opcdefault,
    case when i.indexprs is null then null
        else pg_catalog.pg_get_indexdef(i.indexrelid, k::int, true) end as expression,
    can_order
from pg_catalog.pg_index i
join pg_catalog.pg_class c on c.oid = i.indexrelid
cross join unnest(i.indkey) with ordinality u(u, k)
left join pg_catalog.pg_collation l on l.oid = i.indcollation[k - 1]
cross join pg_catalog.pg_indexam_has_property(c.relam, 'can_order') can_order
left join pg_catalog.pg_opclass p on p.oid = i.indclass[k - 1]
where c.relnamespace = 2200::oid and c.relkind in ('i', 'I')
order by c.relname, k
;
select t.relname, relkind as table_kind, k.oid::bigint as con_id, k.xmin as state_number, conname as con_name,
    contype as con_kind, conkey as con_columns, condeferrable as is_deferrable,
    condeferred as is_init_deferred, confupdtype as on_update, confdeltype as on_delete, connoinherit as no_inherit,
    pg_catalog.pg_get_expr(conbin, t.oid) as con_expression, confkey as ref_columns,
    conexclop::int[] as excl_operators,
    array(select unnest::regoper::varchar from unnest(conexclop)) as excl_operators_str
from pg_catalog.pg_constraint k join pg_catalog.pg_class t on k.conrelid = t.oid
where relkind in ('r', 'v', 'f', 'p') and relnamespace = 2200::oid and contype in ('p', 'u', 'f', 'c', 'x')
and connamespace = 2200::oid
order by con_name
;
select case when 'pg_catalog.pg_class'::regclass = d.classoid
    then case when d.objsubid != 0 then 'C' else c.relkind end
    when 'pg_catalog.pg_type'::regclass = d.classoid then 'T' end as kind,
    d.objsubid as sub_id, d.description
from pg_catalog.pg_description d left join pg_catalog.pg_class c on d.objoid = c.oid
where c.relnamespace = 2200::oid
order by c.relname, sub_id
;
select proname as name, prolang as lang_oid, xmin as state_number, proargnames as arg_names, proargmodes as arg_modes,
    proargtypes::int[] as in_arg_types, proallargtypes::int[] as all_arg_types,
    pg_catalog.pg_get_expr(proargdefaults, 0) as arg_defaults, prokind as kind, provolatile as volatility
from pg_catalog.pg_proc where pronamespace = 2200::oid and not prokind = 'a'
;
select t.*  from public.tools_cpu t order by t.time limit 501
