//! The definitions of the tables of PostgreSQL 15's `pg_catalog`: name, oid and columns of each. A
//! `?` after a type marks a nullable column. If a row does not set another column, its value is 0,
//! false or empty.

use super::Spec;

/// The tables of `pg_catalog`, ordered by name.
pub(crate) const TABLES: &[Spec] = &[
    Spec {
        name: "pg_aggregate",
        oid: 2600,
        columns: "aggfnoid regproc, aggkind char, aggnumdirectargs int2, aggtransfn regproc, \
            aggfinalfn regproc, aggcombinefn regproc, aggserialfn regproc, aggdeserialfn regproc, \
            aggmtransfn regproc, aggminvtransfn regproc, aggmfinalfn regproc, aggfinalextra bool, \
            aggmfinalextra bool, aggfinalmodify char, aggmfinalmodify char, aggsortop oid, \
            aggtranstype oid, aggtransspace int4, aggmtranstype oid, aggmtransspace int4, \
            agginitval text?, aggminitval text?",
    },
    Spec {
        name: "pg_am",
        oid: 2601,
        columns: "oid oid, amname name, amhandler regproc, amtype char",
    },
    Spec {
        name: "pg_amop",
        oid: 2602,
        columns: "oid oid, amopfamily oid, amoplefttype oid, amoprighttype oid, amopstrategy int2, \
            amoppurpose char, amopopr oid, amopmethod oid, amopsortfamily oid",
    },
    Spec {
        name: "pg_amproc",
        oid: 2603,
        columns: "oid oid, amprocfamily oid, amproclefttype oid, amprocrighttype oid, amprocnum \
            int2, amproc regproc",
    },
    Spec {
        name: "pg_attrdef",
        oid: 2604,
        columns: "oid oid, adrelid oid, adnum int2, adbin pg_node_tree",
    },
    Spec {
        name: "pg_attribute",
        oid: 1249,
        columns: "attrelid oid, attname name, atttypid oid, attstattarget int4, attlen int2, \
            attnum int2, attndims int4, attcacheoff int4, atttypmod int4, attbyval bool, attalign \
            char, attstorage char, attcompression char, attnotnull bool, atthasdef bool, \
            atthasmissing bool, attidentity char, attgenerated char, attisdropped bool, attislocal \
            bool, attinhcount int4, attcollation oid, attacl aclitem[]?, attoptions text[]?, \
            attfdwoptions text[]?, attmissingval anyarray?",
    },
    Spec {
        name: "pg_auth_members",
        oid: 1261,
        columns: "roleid oid, member oid, grantor oid, admin_option bool",
    },
    Spec {
        name: "pg_authid",
        oid: 1260,
        columns: "oid oid, rolname name, rolsuper bool, rolinherit bool, rolcreaterole bool, \
            rolcreatedb bool, rolcanlogin bool, rolreplication bool, rolbypassrls bool, \
            rolconnlimit int4, rolpassword text?, rolvaliduntil timestamptz?",
    },
    Spec {
        name: "pg_cast",
        oid: 2605,
        columns: "oid oid, castsource oid, casttarget oid, castfunc oid, castcontext char, \
            castmethod char",
    },
    Spec {
        name: "pg_class",
        oid: 1259,
        columns: "oid oid, relname name, relnamespace oid, reltype oid, reloftype oid, relowner \
            oid, relam oid, relfilenode oid, reltablespace oid, relpages int4, reltuples float4, \
            relallvisible int4, reltoastrelid oid, relhasindex bool, relisshared bool, \
            relpersistence char, relkind char, relnatts int2, relchecks int2, relhasrules bool, \
            relhastriggers bool, relhassubclass bool, relrowsecurity bool, relforcerowsecurity \
            bool, relispopulated bool, relreplident char, relispartition bool, relrewrite oid, \
            relfrozenxid xid, relminmxid xid, relacl aclitem[]?, reloptions text[]?, relpartbound \
            pg_node_tree?",
    },
    Spec {
        name: "pg_collation",
        oid: 3456,
        columns: "oid oid, collname name, collnamespace oid, collowner oid, collprovider char, \
            collisdeterministic bool, collencoding int4, collcollate text?, collctype text?, \
            colliculocale text?, collversion text?",
    },
    Spec {
        name: "pg_constraint",
        oid: 2606,
        columns: "oid oid, conname name, connamespace oid, contype char, condeferrable bool, \
            condeferred bool, convalidated bool, conrelid oid, contypid oid, conindid oid, \
            conparentid oid, confrelid oid, confupdtype char, confdeltype char, confmatchtype \
            char, conislocal bool, coninhcount int4, connoinherit bool, conkey int2[]?, confkey \
            int2[]?, conpfeqop oid[]?, conppeqop oid[]?, conffeqop oid[]?, confdelsetcols int2[]?, \
            conexclop oid[]?, conbin pg_node_tree?",
    },
    Spec {
        name: "pg_conversion",
        oid: 2607,
        columns: "oid oid, conname name, connamespace oid, conowner oid, conforencoding int4, \
            contoencoding int4, conproc regproc, condefault bool",
    },
    Spec {
        name: "pg_database",
        oid: 1262,
        columns: "oid oid, datname name, datdba oid, encoding int4, datlocprovider char, \
            datistemplate bool, datallowconn bool, datconnlimit int4, datfrozenxid xid, datminmxid \
            xid, dattablespace oid, datcollate text, datctype text, daticulocale text?, \
            datcollversion text?, datacl aclitem[]?",
    },
    Spec {
        name: "pg_db_role_setting",
        oid: 2964,
        columns: "setdatabase oid, setrole oid, setconfig text[]?",
    },
    Spec {
        name: "pg_default_acl",
        oid: 826,
        columns: "oid oid, defaclrole oid, defaclnamespace oid, defaclobjtype char, defaclacl \
            aclitem[]",
    },
    Spec {
        name: "pg_depend",
        oid: 2608,
        columns: "classid oid, objid oid, objsubid int4, refclassid oid, refobjid oid, refobjsubid \
            int4, deptype char",
    },
    Spec {
        name: "pg_description",
        oid: 2609,
        columns: "objoid oid, classoid oid, objsubid int4, description text",
    },
    Spec {
        name: "pg_enum",
        oid: 3501,
        columns: "oid oid, enumtypid oid, enumsortorder float4, enumlabel name",
    },
    Spec {
        name: "pg_event_trigger",
        oid: 3466,
        columns: "oid oid, evtname name, evtevent name, evtowner oid, evtfoid oid, evtenabled \
            char, evttags text[]?",
    },
    Spec {
        name: "pg_extension",
        oid: 3079,
        columns: "oid oid, extname name, extowner oid, extnamespace oid, extrelocatable bool, \
            extversion text, extconfig oid[]?, extcondition text[]?",
    },
    Spec {
        name: "pg_foreign_data_wrapper",
        oid: 2328,
        columns: "oid oid, fdwname name, fdwowner oid, fdwhandler oid, fdwvalidator oid, fdwacl \
            aclitem[]?, fdwoptions text[]?",
    },
    Spec {
        name: "pg_foreign_server",
        oid: 1417,
        columns: "oid oid, srvname name, srvowner oid, srvfdw oid, srvtype text?, srvversion \
            text?, srvacl aclitem[]?, srvoptions text[]?",
    },
    Spec {
        name: "pg_foreign_table",
        oid: 3118,
        columns: "ftrelid oid, ftserver oid, ftoptions text[]?",
    },
    Spec {
        name: "pg_index",
        oid: 2610,
        columns: "indexrelid oid, indrelid oid, indnatts int2, indnkeyatts int2, indisunique bool, \
            indnullsnotdistinct bool, indisprimary bool, indisexclusion bool, indimmediate bool, \
            indisclustered bool, indisvalid bool, indcheckxmin bool, indisready bool, indislive \
            bool, indisreplident bool, indkey int2vector, indcollation oidvector, indclass \
            oidvector, indoption int2vector, indexprs pg_node_tree?, indpred pg_node_tree?",
    },
    Spec {
        name: "pg_inherits",
        oid: 2611,
        columns: "inhrelid oid, inhparent oid, inhseqno int4, inhdetachpending bool",
    },
    Spec {
        name: "pg_init_privs",
        oid: 3394,
        columns: "objoid oid, classoid oid, objsubid int4, privtype char, initprivs aclitem[]",
    },
    Spec {
        name: "pg_language",
        oid: 2612,
        columns: "oid oid, lanname name, lanowner oid, lanispl bool, lanpltrusted bool, \
            lanplcallfoid oid, laninline oid, lanvalidator oid, lanacl aclitem[]?",
    },
    Spec { name: "pg_largeobject", oid: 2613, columns: "loid oid, pageno int4, data bytea" },
    Spec {
        name: "pg_largeobject_metadata",
        oid: 2995,
        columns: "oid oid, lomowner oid, lomacl aclitem[]?",
    },
    Spec {
        name: "pg_namespace",
        oid: 2615,
        columns: "oid oid, nspname name, nspowner oid, nspacl aclitem[]?",
    },
    Spec {
        name: "pg_opclass",
        oid: 2616,
        columns: "oid oid, opcmethod oid, opcname name, opcnamespace oid, opcowner oid, opcfamily \
            oid, opcintype oid, opcdefault bool, opckeytype oid",
    },
    Spec {
        name: "pg_operator",
        oid: 2617,
        columns: "oid oid, oprname name, oprnamespace oid, oprowner oid, oprkind char, oprcanmerge \
            bool, oprcanhash bool, oprleft oid, oprright oid, oprresult oid, oprcom oid, oprnegate \
            oid, oprcode regproc, oprrest regproc, oprjoin regproc",
    },
    Spec {
        name: "pg_opfamily",
        oid: 2753,
        columns: "oid oid, opfmethod oid, opfname name, opfnamespace oid, opfowner oid",
    },
    Spec {
        name: "pg_parameter_acl",
        oid: 6243,
        columns: "oid oid, parname text, paracl aclitem[]?",
    },
    Spec {
        name: "pg_partitioned_table",
        oid: 3350,
        columns: "partrelid oid, partstrat char, partnatts int2, partdefid oid, partattrs \
            int2vector, partclass oidvector, partcollation oidvector, partexprs pg_node_tree?",
    },
    Spec {
        name: "pg_policy",
        oid: 3256,
        columns: "oid oid, polname name, polrelid oid, polcmd char, polpermissive bool, polroles \
            oid[], polqual pg_node_tree?, polwithcheck pg_node_tree?",
    },
    Spec {
        name: "pg_proc",
        oid: 1255,
        columns: "oid oid, proname name, pronamespace oid, proowner oid, prolang oid, procost \
            float4, prorows float4, provariadic oid, prosupport regproc, prokind char, prosecdef \
            bool, proleakproof bool, proisstrict bool, proretset bool, provolatile char, \
            proparallel char, pronargs int2, pronargdefaults int2, prorettype oid, proargtypes \
            oidvector, proallargtypes oid[]?, proargmodes char[]?, proargnames text[]?, \
            proargdefaults pg_node_tree?, protrftypes oid[]?, prosrc text, probin text?, \
            prosqlbody pg_node_tree?, proconfig text[]?, proacl aclitem[]?",
    },
    Spec {
        name: "pg_publication",
        oid: 6104,
        columns: "oid oid, pubname name, pubowner oid, puballtables bool, pubinsert bool, \
            pubupdate bool, pubdelete bool, pubtruncate bool, pubviaroot bool",
    },
    Spec {
        name: "pg_publication_namespace",
        oid: 6237,
        columns: "oid oid, pnpubid oid, pnnspid oid",
    },
    Spec {
        name: "pg_publication_rel",
        oid: 6106,
        columns: "oid oid, prpubid oid, prrelid oid, prqual pg_node_tree?, prattrs int2vector?",
    },
    Spec {
        name: "pg_range",
        oid: 3541,
        columns: "rngtypid oid, rngsubtype oid, rngmultitypid oid, rngcollation oid, rngsubopc \
            oid, rngcanonical regproc, rngsubdiff regproc",
    },
    Spec { name: "pg_replication_origin", oid: 6000, columns: "roident oid, roname text" },
    Spec {
        name: "pg_rewrite",
        oid: 2618,
        columns: "oid oid, rulename name, ev_class oid, ev_type char, ev_enabled char, is_instead \
            bool, ev_qual pg_node_tree, ev_action pg_node_tree",
    },
    Spec {
        name: "pg_seclabel",
        oid: 3596,
        columns: "objoid oid, classoid oid, objsubid int4, provider text, label text",
    },
    Spec {
        name: "pg_sequence",
        oid: 2224,
        columns: "seqrelid oid, seqtypid oid, seqstart int8, seqincrement int8, seqmax int8, \
            seqmin int8, seqcache int8, seqcycle bool",
    },
    Spec {
        name: "pg_shdepend",
        oid: 1214,
        columns: "dbid oid, classid oid, objid oid, objsubid int4, refclassid oid, refobjid oid, \
            deptype char",
    },
    Spec {
        name: "pg_shdescription",
        oid: 2396,
        columns: "objoid oid, classoid oid, description text",
    },
    Spec {
        name: "pg_shseclabel",
        oid: 3592,
        columns: "objoid oid, classoid oid, provider text, label text",
    },
    Spec {
        name: "pg_statistic",
        oid: 2619,
        columns: "starelid oid, staattnum int2, stainherit bool, stanullfrac float4, stawidth \
            int4, stadistinct float4, stakind1 int2, stakind2 int2, stakind3 int2, stakind4 int2, \
            stakind5 int2, staop1 oid, staop2 oid, staop3 oid, staop4 oid, staop5 oid, stacoll1 \
            oid, stacoll2 oid, stacoll3 oid, stacoll4 oid, stacoll5 oid, stanumbers1 float4[]?, \
            stanumbers2 float4[]?, stanumbers3 float4[]?, stanumbers4 float4[]?, stanumbers5 \
            float4[]?, stavalues1 anyarray?, stavalues2 anyarray?, stavalues3 anyarray?, \
            stavalues4 anyarray?, stavalues5 anyarray?",
    },
    Spec {
        name: "pg_statistic_ext",
        oid: 3381,
        columns: "oid oid, stxrelid oid, stxname name, stxnamespace oid, stxowner oid, \
            stxstattarget int4, stxkeys int2vector, stxkind char[], stxexprs pg_node_tree?",
    },
    Spec {
        name: "pg_statistic_ext_data",
        oid: 3429,
        columns: "stxoid oid, stxdinherit bool, stxdndistinct pg_ndistinct?, stxddependencies \
            pg_dependencies?, stxdmcv pg_mcv_list?, stxdexpr pg_statistic[]?",
    },
    Spec {
        name: "pg_subscription",
        oid: 6100,
        columns: "oid oid, subdbid oid, subskiplsn pg_lsn, subname name, subowner oid, subenabled \
            bool, subbinary bool, substream bool, subtwophasestate char, subdisableonerr bool, \
            subconninfo text, subslotname name?, subsynccommit text, subpublications text[]",
    },
    Spec {
        name: "pg_subscription_rel",
        oid: 6102,
        columns: "srsubid oid, srrelid oid, srsubstate char, srsublsn pg_lsn?",
    },
    Spec {
        name: "pg_tablespace",
        oid: 1213,
        columns: "oid oid, spcname name, spcowner oid, spcacl aclitem[]?, spcoptions text[]?",
    },
    Spec {
        name: "pg_transform",
        oid: 3576,
        columns: "oid oid, trftype oid, trflang oid, trffromsql regproc, trftosql regproc",
    },
    Spec {
        name: "pg_trigger",
        oid: 2620,
        columns: "oid oid, tgrelid oid, tgparentid oid, tgname name, tgfoid oid, tgtype int2, \
            tgenabled char, tgisinternal bool, tgconstrrelid oid, tgconstrindid oid, tgconstraint \
            oid, tgdeferrable bool, tginitdeferred bool, tgnargs int2, tgattr int2vector, tgargs \
            bytea, tgqual pg_node_tree?, tgoldtable name?, tgnewtable name?",
    },
    Spec {
        name: "pg_ts_config",
        oid: 3602,
        columns: "oid oid, cfgname name, cfgnamespace oid, cfgowner oid, cfgparser oid",
    },
    Spec {
        name: "pg_ts_config_map",
        oid: 3603,
        columns: "mapcfg oid, maptokentype int4, mapseqno int4, mapdict oid",
    },
    Spec {
        name: "pg_ts_dict",
        oid: 3600,
        columns: "oid oid, dictname name, dictnamespace oid, dictowner oid, dicttemplate oid, \
            dictinitoption text?",
    },
    Spec {
        name: "pg_ts_parser",
        oid: 3601,
        columns: "oid oid, prsname name, prsnamespace oid, prsstart regproc, prstoken regproc, \
            prsend regproc, prsheadline regproc, prslextype regproc",
    },
    Spec {
        name: "pg_ts_template",
        oid: 3764,
        columns: "oid oid, tmplname name, tmplnamespace oid, tmplinit regproc, tmpllexize regproc",
    },
    Spec {
        name: "pg_type",
        oid: 1247,
        columns: "oid oid, typname name, typnamespace oid, typowner oid, typlen int2, typbyval \
            bool, typtype char, typcategory char, typispreferred bool, typisdefined bool, typdelim \
            char, typrelid oid, typsubscript regproc, typelem oid, typarray oid, typinput regproc, \
            typoutput regproc, typreceive regproc, typsend regproc, typmodin regproc, typmodout \
            regproc, typanalyze regproc, typalign char, typstorage char, typnotnull bool, \
            typbasetype oid, typtypmod int4, typndims int4, typcollation oid, typdefaultbin \
            pg_node_tree?, typdefault text?, typacl aclitem[]?",
    },
    Spec {
        name: "pg_user_mapping",
        oid: 1418,
        columns: "oid oid, umuser oid, umserver oid, umoptions text[]?",
    },
];
