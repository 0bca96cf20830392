//! Names, oids and columns of the views of `information_schema`.

use super::Spec;

/// The tables, by name.
pub(crate) const INFORMATION_SCHEMA: &[Spec] = &[
    Spec {
        name: "applicable_roles",
        oid: 13236,
        columns: "grantee text, role_name text, is_grantable text",
    },
    Spec {
        name: "character_sets",
        oid: 13250,
        columns: "character_set_catalog text, character_set_schema text, character_set_name text, \
            character_repertoire text, form_of_use text, default_collate_catalog text, \
            default_collate_schema text, default_collate_name text",
    },
    Spec {
        name: "check_constraints",
        oid: 13260,
        columns: "constraint_catalog text, constraint_schema text, constraint_name text, check_clause \
            text",
    },
    Spec {
        name: "collations",
        oid: 13265,
        columns: "collation_catalog text, collation_schema text, collation_name text, pad_attribute \
            text",
    },
    Spec {
        name: "column_privileges",
        oid: 13285,
        columns: "grantor text, grantee text, table_catalog text, table_schema text, table_name text, \
            column_name text, privilege_type text, is_grantable text",
    },
    Spec {
        name: "column_udt_usage",
        oid: 13290,
        columns: "udt_catalog text, udt_schema text, udt_name text, table_catalog text, table_schema \
            text, table_name text, column_name text",
    },
    Spec {
        name: "columns",
        oid: 13295,
        columns: "table_catalog text, table_schema text, table_name text, column_name text, \
            ordinal_position int4, column_default text, is_nullable text, data_type text, \
            character_maximum_length int4, character_octet_length int4, numeric_precision int4, \
            numeric_precision_radix int4, numeric_scale int4, datetime_precision int4, \
            interval_type text, interval_precision int4, character_set_catalog text, \
            character_set_schema text, character_set_name text, collation_catalog text, \
            collation_schema text, collation_name text, domain_catalog text, domain_schema text, \
            domain_name text, udt_catalog text, udt_schema text, udt_name text, scope_catalog \
            text, scope_schema text, scope_name text, maximum_cardinality int4, dtd_identifier \
            text, is_self_referencing text, is_identity text, identity_generation text, \
            identity_start text, identity_increment text, identity_maximum text, \
            identity_minimum text, identity_cycle text, is_generated text, generation_expression \
            text, is_updatable text",
    },
    Spec {
        name: "constraint_column_usage",
        oid: 13300,
        columns: "table_catalog text, table_schema text, table_name text, column_name text, \
            constraint_catalog text, constraint_schema text, constraint_name text",
    },
    Spec {
        name: "constraint_table_usage",
        oid: 13305,
        columns: "table_catalog text, table_schema text, table_name text, constraint_catalog text, \
            constraint_schema text, constraint_name text",
    },
    Spec {
        name: "domains",
        oid: 13320,
        columns: "domain_catalog text, domain_schema text, domain_name text, data_type text, \
            character_maximum_length int4, character_octet_length int4, character_set_catalog \
            text, character_set_schema text, character_set_name text, collation_catalog text, \
            collation_schema text, collation_name text, numeric_precision int4, \
            numeric_precision_radix int4, numeric_scale int4, datetime_precision int4, \
            interval_type text, interval_precision int4, domain_default text, udt_catalog text, \
            udt_schema text, udt_name text, scope_catalog text, scope_schema text, scope_name \
            text, maximum_cardinality int4, dtd_identifier text",
    },
    Spec {
        name: "element_types",
        oid: 13493,
        columns: "object_catalog text, object_schema text, object_name text, object_type text, \
            collection_type_identifier text, data_type text, character_maximum_length int4, \
            character_octet_length int4, character_set_catalog text, character_set_schema text, \
            character_set_name text, collation_catalog text, collation_schema text, \
            collation_name text, numeric_precision int4, numeric_precision_radix int4, \
            numeric_scale int4, datetime_precision int4, interval_type text, interval_precision \
            int4, domain_default text, udt_catalog text, udt_schema text, udt_name text, \
            scope_catalog text, scope_schema text, scope_name text, maximum_cardinality int4, \
            dtd_identifier text",
    },
    Spec { name: "enabled_roles", oid: 13325, columns: "role_name text" },
    Spec {
        name: "foreign_tables",
        oid: 13541,
        columns: "foreign_table_catalog text, foreign_table_schema text, foreign_table_name text, \
            foreign_server_catalog text, foreign_server_name text",
    },
    Spec { name: "information_schema_catalog_name", oid: 13227, columns: "catalog_name text" },
    Spec {
        name: "key_column_usage",
        oid: 13329,
        columns: "constraint_catalog text, constraint_schema text, constraint_name text, table_catalog \
            text, table_schema text, table_name text, column_name text, ordinal_position int4, \
            position_in_unique_constraint int4",
    },
    Spec {
        name: "parameters",
        oid: 13334,
        columns: "specific_catalog text, specific_schema text, specific_name text, ordinal_position \
            int4, parameter_mode text, is_result text, as_locator text, parameter_name text, \
            data_type text, character_maximum_length int4, character_octet_length int4, \
            character_set_catalog text, character_set_schema text, character_set_name text, \
            collation_catalog text, collation_schema text, collation_name text, \
            numeric_precision int4, numeric_precision_radix int4, numeric_scale int4, \
            datetime_precision int4, interval_type text, interval_precision int4, udt_catalog \
            text, udt_schema text, udt_name text, scope_catalog text, scope_schema text, \
            scope_name text, maximum_cardinality int4, dtd_identifier text, parameter_default \
            text",
    },
    Spec {
        name: "referential_constraints",
        oid: 13339,
        columns: "constraint_catalog text, constraint_schema text, constraint_name text, \
            unique_constraint_catalog text, unique_constraint_schema text, \
            unique_constraint_name text, match_option text, update_rule text, delete_rule text",
    },
    Spec {
        name: "role_table_grants",
        oid: 13421,
        columns: "grantor text, grantee text, table_catalog text, table_schema text, table_name text, \
            privilege_type text, is_grantable text, with_hierarchy text",
    },
    Spec {
        name: "routines",
        oid: 13377,
        columns: "specific_catalog text, specific_schema text, specific_name text, routine_catalog \
            text, routine_schema text, routine_name text, routine_type text, module_catalog \
            text, module_schema text, module_name text, udt_catalog text, udt_schema text, \
            udt_name text, data_type text, character_maximum_length int4, character_octet_length \
            int4, character_set_catalog text, character_set_schema text, character_set_name \
            text, collation_catalog text, collation_schema text, collation_name text, \
            numeric_precision int4, numeric_precision_radix int4, numeric_scale int4, \
            datetime_precision int4, interval_type text, interval_precision int4, \
            type_udt_catalog text, type_udt_schema text, type_udt_name text, scope_catalog text, \
            scope_schema text, scope_name text, maximum_cardinality int4, dtd_identifier text, \
            routine_body text, routine_definition text, external_name text, external_language \
            text, parameter_style text, is_deterministic text, sql_data_access text, \
            is_null_call text, sql_path text, schema_level_routine text, max_dynamic_result_sets \
            int4, is_user_defined_cast text, is_implicitly_invocable text, security_type text, \
            to_sql_specific_catalog text, to_sql_specific_schema text, to_sql_specific_name \
            text, as_locator text, created timestamptz, last_altered timestamptz, \
            new_savepoint_level text, is_udt_dependent text, result_cast_from_data_type text, \
            result_cast_as_locator text, result_cast_char_max_length int4, \
            result_cast_char_octet_length int4, result_cast_char_set_catalog text, \
            result_cast_char_set_schema text, result_cast_char_set_name text, \
            result_cast_collation_catalog text, result_cast_collation_schema text, \
            result_cast_collation_name text, result_cast_numeric_precision int4, \
            result_cast_numeric_precision_radix int4, result_cast_numeric_scale int4, \
            result_cast_datetime_precision int4, result_cast_interval_type text, \
            result_cast_interval_precision int4, result_cast_type_udt_catalog text, \
            result_cast_type_udt_schema text, result_cast_type_udt_name text, \
            result_cast_scope_catalog text, result_cast_scope_schema text, \
            result_cast_scope_name text, result_cast_maximum_cardinality int4, \
            result_cast_dtd_identifier text",
    },
    Spec {
        name: "schemata",
        oid: 13382,
        columns: "catalog_name text, schema_name text, schema_owner text, \
            default_character_set_catalog text, default_character_set_schema text, \
            default_character_set_name text, sql_path text",
    },
    Spec {
        name: "sequences",
        oid: 13386,
        columns: "sequence_catalog text, sequence_schema text, sequence_name text, data_type text, \
            numeric_precision int4, numeric_precision_radix int4, numeric_scale int4, \
            start_value text, minimum_value text, maximum_value text, increment text, \
            cycle_option text",
    },
    Spec {
        name: "table_constraints",
        oid: 13411,
        columns: "constraint_catalog text, constraint_schema text, constraint_name text, table_catalog \
            text, table_schema text, table_name text, constraint_type text, is_deferrable text, \
            initially_deferred text, enforced text, nulls_distinct text",
    },
    Spec {
        name: "table_privileges",
        oid: 13416,
        columns: "grantor text, grantee text, table_catalog text, table_schema text, table_name text, \
            privilege_type text, is_grantable text, with_hierarchy text",
    },
    Spec {
        name: "tables",
        oid: 13425,
        columns: "table_catalog text, table_schema text, table_name text, table_type text, \
            self_referencing_column_name text, reference_generation text, \
            user_defined_type_catalog text, user_defined_type_schema text, \
            user_defined_type_name text, is_insertable_into text, is_typed text, commit_action \
            text",
    },
    Spec {
        name: "triggers",
        oid: 13440,
        columns: "trigger_catalog text, trigger_schema text, trigger_name text, event_manipulation \
            text, event_object_catalog text, event_object_schema text, event_object_table text, \
            action_order int4, action_condition text, action_statement text, action_orientation \
            text, action_timing text, action_reference_old_table text, \
            action_reference_new_table text, action_reference_old_row text, \
            action_reference_new_row text, created timestamptz",
    },
    Spec {
        name: "user_defined_types",
        oid: 13463,
        columns: "user_defined_type_catalog text, user_defined_type_schema text, \
            user_defined_type_name text, user_defined_type_category text, is_instantiable text, \
            is_final text, ordering_form text, ordering_category text, ordering_routine_catalog \
            text, ordering_routine_schema text, ordering_routine_name text, reference_type text, \
            data_type text, character_maximum_length int4, character_octet_length int4, \
            character_set_catalog text, character_set_schema text, character_set_name text, \
            collation_catalog text, collation_schema text, collation_name text, \
            numeric_precision int4, numeric_precision_radix int4, numeric_scale int4, \
            datetime_precision int4, interval_type text, interval_precision int4, \
            source_dtd_identifier text, ref_dtd_identifier text",
    },
    Spec {
        name: "view_table_usage",
        oid: 13478,
        columns: "view_catalog text, view_schema text, view_name text, table_catalog text, \
            table_schema text, table_name text",
    },
    Spec {
        name: "views",
        oid: 13483,
        columns: "table_catalog text, table_schema text, table_name text, view_definition text, \
            check_option text, is_updatable text, is_insertable_into text, is_trigger_updatable \
            text, is_trigger_deletable text, is_trigger_insertable_into text",
    },
];
