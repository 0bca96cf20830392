//! The definitions of the views and tables of `information_schema`: name, oid and columns of each.

use super::Spec;

/// The columns that all views about roles have.
const ROLES: &str = "grantee name, role_name name, is_grantable varchar";

/// The columns that all views about privileges on columns have.
const COLUMN_PRIVILEGES: &str = "grantor name, grantee name, table_catalog name, table_schema name, table_name \
    name, column_name name, privilege_type varchar, is_grantable varchar";

/// The columns that all views about privileges on routines have.
const ROUTINE_PRIVILEGES: &str = "grantor name, grantee name, specific_catalog name, specific_schema name, \
    specific_name name, routine_catalog name, routine_schema name, routine_name name, \
    privilege_type varchar, is_grantable varchar";

/// The columns that all views about privileges on tables have.
const TABLE_PRIVILEGES: &str = "grantor name, grantee name, table_catalog name, table_schema name, table_name \
    name, privilege_type varchar, is_grantable varchar, with_hierarchy varchar";

/// The columns that all views about privileges on types have.
const TYPE_PRIVILEGES: &str = "grantor name, grantee name, udt_catalog name, udt_schema name, udt_name name, \
    privilege_type varchar, is_grantable varchar";

/// The columns that all views about privileges on other objects have.
const USAGE_PRIVILEGES: &str = "grantor name, grantee name, object_catalog name, object_schema name, object_name \
    name, object_type varchar, privilege_type varchar, is_grantable varchar";

/// The tables of `information_schema`, ordered by name. All other relations of the schema are
/// views.
pub(crate) const INFORMATION_TABLES: &[Spec] = &[Spec {
    name: "sql_features",
    oid: 13391,
    columns: "feature_id varchar?, feature_name varchar?, sub_feature_id varchar?, \
        sub_feature_name varchar?, is_supported varchar?, is_verified_by varchar?, comments \
        varchar?",
}];

/// The views of `information_schema`, ordered by name.
pub(crate) const INFORMATION_SCHEMA: &[Spec] = &[
    Spec { name: "administrable_role_authorizations", oid: 13241, columns: ROLES },
    Spec { name: "applicable_roles", oid: 13236, columns: ROLES },
    Spec {
        name: "attributes",
        oid: 13245,
        columns: "udt_catalog name, udt_schema name, udt_name name, attribute_name name, \
            ordinal_position int4, attribute_default varchar, is_nullable varchar, data_type \
            varchar, character_maximum_length int4, character_octet_length int4, \
            character_set_catalog name, character_set_schema name, character_set_name name, \
            collation_catalog name, collation_schema name, collation_name name, numeric_precision \
            int4, numeric_precision_radix int4, numeric_scale int4, datetime_precision int4, \
            interval_type varchar, interval_precision int4, attribute_udt_catalog name, \
            attribute_udt_schema name, attribute_udt_name name, scope_catalog name, scope_schema \
            name, scope_name name, maximum_cardinality int4, dtd_identifier name, \
            is_derived_reference_attribute varchar",
    },
    Spec {
        name: "character_sets",
        oid: 13250,
        columns: "character_set_catalog name, character_set_schema name, character_set_name name, \
            character_repertoire name, form_of_use name, default_collate_catalog name, \
            default_collate_schema name, default_collate_name name",
    },
    Spec {
        name: "check_constraint_routine_usage",
        oid: 13255,
        columns: "constraint_catalog name, constraint_schema name, constraint_name name, \
            specific_catalog name, specific_schema name, specific_name name",
    },
    Spec {
        name: "check_constraints",
        oid: 13260,
        columns: "constraint_catalog name, constraint_schema name, constraint_name name, \
            check_clause varchar",
    },
    Spec {
        name: "collation_character_set_applicability",
        oid: 13270,
        columns: "collation_catalog name, collation_schema name, collation_name name, \
            character_set_catalog name, character_set_schema name, character_set_name name",
    },
    Spec {
        name: "collations",
        oid: 13265,
        columns: "collation_catalog name, collation_schema name, collation_name name, \
            pad_attribute varchar",
    },
    Spec {
        name: "column_column_usage",
        oid: 13275,
        columns: "table_catalog name, table_schema name, table_name name, column_name name, \
            dependent_column name",
    },
    Spec {
        name: "column_domain_usage",
        oid: 13280,
        columns: "domain_catalog name, domain_schema name, domain_name name, table_catalog name, \
            table_schema name, table_name name, column_name name",
    },
    Spec {
        name: "column_options",
        oid: 13503,
        columns: "table_catalog name, table_schema name, table_name name, column_name name, \
            option_name name, option_value varchar",
    },
    Spec { name: "column_privileges", oid: 13285, columns: COLUMN_PRIVILEGES },
    Spec {
        name: "column_udt_usage",
        oid: 13290,
        columns: "udt_catalog name, udt_schema name, udt_name name, table_catalog name, \
            table_schema name, table_name name, column_name name",
    },
    Spec {
        name: "columns",
        oid: 13295,
        columns: "table_catalog name, table_schema name, table_name name, column_name name, \
            ordinal_position int4, column_default varchar, is_nullable varchar, data_type varchar, \
            character_maximum_length int4, character_octet_length int4, numeric_precision int4, \
            numeric_precision_radix int4, numeric_scale int4, datetime_precision int4, \
            interval_type varchar, interval_precision int4, character_set_catalog name, \
            character_set_schema name, character_set_name name, collation_catalog name, \
            collation_schema name, collation_name name, domain_catalog name, domain_schema name, \
            domain_name name, udt_catalog name, udt_schema name, udt_name name, scope_catalog \
            name, scope_schema name, scope_name name, maximum_cardinality int4, dtd_identifier \
            name, is_self_referencing varchar, is_identity varchar, identity_generation varchar, \
            identity_start varchar, identity_increment varchar, identity_maximum varchar, \
            identity_minimum varchar, identity_cycle varchar, is_generated varchar, \
            generation_expression varchar, is_updatable varchar",
    },
    Spec {
        name: "constraint_column_usage",
        oid: 13300,
        columns: "table_catalog name, table_schema name, table_name name, column_name name, \
            constraint_catalog name, constraint_schema name, constraint_name name",
    },
    Spec {
        name: "constraint_table_usage",
        oid: 13305,
        columns: "table_catalog name, table_schema name, table_name name, constraint_catalog name, \
            constraint_schema name, constraint_name name",
    },
    Spec {
        name: "data_type_privileges",
        oid: 13488,
        columns: "object_catalog name, object_schema name, object_name name, object_type varchar, \
            dtd_identifier name",
    },
    Spec {
        name: "domain_constraints",
        oid: 13310,
        columns: "constraint_catalog name, constraint_schema name, constraint_name name, \
            domain_catalog name, domain_schema name, domain_name name, is_deferrable varchar, \
            initially_deferred varchar",
    },
    Spec {
        name: "domain_udt_usage",
        oid: 13315,
        columns: "udt_catalog name, udt_schema name, udt_name name, domain_catalog name, \
            domain_schema name, domain_name name",
    },
    Spec {
        name: "domains",
        oid: 13320,
        columns: "domain_catalog name, domain_schema name, domain_name name, data_type varchar, \
            character_maximum_length int4, character_octet_length int4, character_set_catalog \
            name, character_set_schema name, character_set_name name, collation_catalog name, \
            collation_schema name, collation_name name, numeric_precision int4, \
            numeric_precision_radix int4, numeric_scale int4, datetime_precision int4, \
            interval_type varchar, interval_precision int4, domain_default varchar, udt_catalog \
            name, udt_schema name, udt_name name, scope_catalog name, scope_schema name, \
            scope_name name, maximum_cardinality int4, dtd_identifier name",
    },
    Spec {
        name: "element_types",
        oid: 13493,
        columns: "object_catalog name, object_schema name, object_name name, object_type varchar, \
            collection_type_identifier name, data_type varchar, character_maximum_length int4, \
            character_octet_length int4, character_set_catalog name, character_set_schema name, \
            character_set_name name, collation_catalog name, collation_schema name, collation_name \
            name, numeric_precision int4, numeric_precision_radix int4, numeric_scale int4, \
            datetime_precision int4, interval_type varchar, interval_precision int4, \
            domain_default varchar, udt_catalog name, udt_schema name, udt_name name, \
            scope_catalog name, scope_schema name, scope_name name, maximum_cardinality int4, \
            dtd_identifier name",
    },
    Spec { name: "enabled_roles", oid: 13325, columns: "role_name name" },
    Spec {
        name: "foreign_data_wrapper_options",
        oid: 13511,
        columns: "foreign_data_wrapper_catalog name, foreign_data_wrapper_name name, option_name \
            name, option_value varchar",
    },
    Spec {
        name: "foreign_data_wrappers",
        oid: 13515,
        columns: "foreign_data_wrapper_catalog name, foreign_data_wrapper_name name, \
            authorization_identifier name, library_name varchar, foreign_data_wrapper_language \
            varchar",
    },
    Spec {
        name: "foreign_server_options",
        oid: 13524,
        columns: "foreign_server_catalog name, foreign_server_name name, option_name name, \
            option_value varchar",
    },
    Spec {
        name: "foreign_servers",
        oid: 13528,
        columns: "foreign_server_catalog name, foreign_server_name name, \
            foreign_data_wrapper_catalog name, foreign_data_wrapper_name name, foreign_server_type \
            varchar, foreign_server_version varchar, authorization_identifier name",
    },
    Spec {
        name: "foreign_table_options",
        oid: 13537,
        columns: "foreign_table_catalog name, foreign_table_schema name, foreign_table_name name, \
            option_name name, option_value varchar",
    },
    Spec {
        name: "foreign_tables",
        oid: 13541,
        columns: "foreign_table_catalog name, foreign_table_schema name, foreign_table_name name, \
            foreign_server_catalog name, foreign_server_name name",
    },
    Spec { name: "information_schema_catalog_name", oid: 13227, columns: "catalog_name name" },
    Spec {
        name: "key_column_usage",
        oid: 13329,
        columns: "constraint_catalog name, constraint_schema name, constraint_name name, \
            table_catalog name, table_schema name, table_name name, column_name name, \
            ordinal_position int4, position_in_unique_constraint int4",
    },
    Spec {
        name: "parameters",
        oid: 13334,
        columns: "specific_catalog name, specific_schema name, specific_name name, \
            ordinal_position int4, parameter_mode varchar, is_result varchar, as_locator varchar, \
            parameter_name name, data_type varchar, character_maximum_length int4, \
            character_octet_length int4, character_set_catalog name, character_set_schema name, \
            character_set_name name, collation_catalog name, collation_schema name, collation_name \
            name, numeric_precision int4, numeric_precision_radix int4, numeric_scale int4, \
            datetime_precision int4, interval_type varchar, interval_precision int4, udt_catalog \
            name, udt_schema name, udt_name name, scope_catalog name, scope_schema name, \
            scope_name name, maximum_cardinality int4, dtd_identifier name, parameter_default \
            varchar",
    },
    Spec {
        name: "referential_constraints",
        oid: 13339,
        columns: "constraint_catalog name, constraint_schema name, constraint_name name, \
            unique_constraint_catalog name, unique_constraint_schema name, unique_constraint_name \
            name, match_option varchar, update_rule varchar, delete_rule varchar",
    },
    Spec { name: "role_column_grants", oid: 13344, columns: COLUMN_PRIVILEGES },
    Spec { name: "role_routine_grants", oid: 13358, columns: ROUTINE_PRIVILEGES },
    Spec { name: "role_table_grants", oid: 13421, columns: TABLE_PRIVILEGES },
    Spec { name: "role_udt_grants", oid: 13450, columns: TYPE_PRIVILEGES },
    Spec { name: "role_usage_grants", oid: 13459, columns: USAGE_PRIVILEGES },
    Spec {
        name: "routine_column_usage",
        oid: 13348,
        columns: "specific_catalog name, specific_schema name, specific_name name, routine_catalog \
            name, routine_schema name, routine_name name, table_catalog name, table_schema name, \
            table_name name, column_name name",
    },
    Spec { name: "routine_privileges", oid: 13353, columns: ROUTINE_PRIVILEGES },
    Spec {
        name: "routine_routine_usage",
        oid: 13362,
        columns: "specific_catalog name, specific_schema name, specific_name name, routine_catalog \
            name, routine_schema name, routine_name name",
    },
    Spec {
        name: "routine_sequence_usage",
        oid: 13367,
        columns: "specific_catalog name, specific_schema name, specific_name name, routine_catalog \
            name, routine_schema name, routine_name name, sequence_catalog name, sequence_schema \
            name, sequence_name name",
    },
    Spec {
        name: "routine_table_usage",
        oid: 13372,
        columns: "specific_catalog name, specific_schema name, specific_name name, routine_catalog \
            name, routine_schema name, routine_name name, table_catalog name, table_schema name, \
            table_name name",
    },
    Spec {
        name: "routines",
        oid: 13377,
        columns: "specific_catalog name, specific_schema name, specific_name name, routine_catalog \
            name, routine_schema name, routine_name name, routine_type varchar, module_catalog \
            name, module_schema name, module_name name, udt_catalog name, udt_schema name, \
            udt_name name, data_type varchar, character_maximum_length int4, \
            character_octet_length int4, character_set_catalog name, character_set_schema name, \
            character_set_name name, collation_catalog name, collation_schema name, collation_name \
            name, numeric_precision int4, numeric_precision_radix int4, numeric_scale int4, \
            datetime_precision int4, interval_type varchar, interval_precision int4, \
            type_udt_catalog name, type_udt_schema name, type_udt_name name, scope_catalog name, \
            scope_schema name, scope_name name, maximum_cardinality int4, dtd_identifier name, \
            routine_body varchar, routine_definition varchar, external_name varchar, \
            external_language varchar, parameter_style varchar, is_deterministic varchar, \
            sql_data_access varchar, is_null_call varchar, sql_path varchar, schema_level_routine \
            varchar, max_dynamic_result_sets int4, is_user_defined_cast varchar, \
            is_implicitly_invocable varchar, security_type varchar, to_sql_specific_catalog name, \
            to_sql_specific_schema name, to_sql_specific_name name, as_locator varchar, created \
            timestamptz, last_altered timestamptz, new_savepoint_level varchar, is_udt_dependent \
            varchar, result_cast_from_data_type varchar, result_cast_as_locator varchar, \
            result_cast_char_max_length int4, result_cast_char_octet_length int4, \
            result_cast_char_set_catalog name, result_cast_char_set_schema name, \
            result_cast_char_set_name name, result_cast_collation_catalog name, \
            result_cast_collation_schema name, result_cast_collation_name name, \
            result_cast_numeric_precision int4, result_cast_numeric_precision_radix int4, \
            result_cast_numeric_scale int4, result_cast_datetime_precision int4, \
            result_cast_interval_type varchar, result_cast_interval_precision int4, \
            result_cast_type_udt_catalog name, result_cast_type_udt_schema name, \
            result_cast_type_udt_name name, result_cast_scope_catalog name, \
            result_cast_scope_schema name, result_cast_scope_name name, \
            result_cast_maximum_cardinality int4, result_cast_dtd_identifier name",
    },
    Spec {
        name: "schemata",
        oid: 13382,
        columns: "catalog_name name, schema_name name, schema_owner name, \
            default_character_set_catalog name, default_character_set_schema name, \
            default_character_set_name name, sql_path varchar",
    },
    Spec {
        name: "sequences",
        oid: 13386,
        columns: "sequence_catalog name, sequence_schema name, sequence_name name, data_type \
            varchar, numeric_precision int4, numeric_precision_radix int4, numeric_scale int4, \
            start_value varchar, minimum_value varchar, maximum_value varchar, increment varchar, \
            cycle_option varchar",
    },
    Spec {
        name: "table_constraints",
        oid: 13411,
        columns: "constraint_catalog name, constraint_schema name, constraint_name name, \
            table_catalog name, table_schema name, table_name name, constraint_type varchar, \
            is_deferrable varchar, initially_deferred varchar, enforced varchar, nulls_distinct \
            varchar",
    },
    Spec { name: "table_privileges", oid: 13416, columns: TABLE_PRIVILEGES },
    Spec {
        name: "tables",
        oid: 13425,
        columns: "table_catalog name, table_schema name, table_name name, table_type varchar, \
            self_referencing_column_name name, reference_generation varchar, \
            user_defined_type_catalog name, user_defined_type_schema name, user_defined_type_name \
            name, is_insertable_into varchar, is_typed varchar, commit_action varchar",
    },
    Spec {
        name: "transforms",
        oid: 13430,
        columns: "udt_catalog name, udt_schema name, udt_name name, specific_catalog name, \
            specific_schema name, specific_name name, group_name name, transform_type varchar",
    },
    Spec {
        name: "triggered_update_columns",
        oid: 13435,
        columns: "trigger_catalog name, trigger_schema name, trigger_name name, \
            event_object_catalog name, event_object_schema name, event_object_table name, \
            event_object_column name",
    },
    Spec {
        name: "triggers",
        oid: 13440,
        columns: "trigger_catalog name, trigger_schema name, trigger_name name, event_manipulation \
            varchar, event_object_catalog name, event_object_schema name, event_object_table name, \
            action_order int4, action_condition varchar, action_statement varchar, \
            action_orientation varchar, action_timing varchar, action_reference_old_table name, \
            action_reference_new_table name, action_reference_old_row name, \
            action_reference_new_row name, created timestamptz",
    },
    Spec { name: "udt_privileges", oid: 13445, columns: TYPE_PRIVILEGES },
    Spec { name: "usage_privileges", oid: 13454, columns: USAGE_PRIVILEGES },
    Spec {
        name: "user_defined_types",
        oid: 13463,
        columns: "user_defined_type_catalog name, user_defined_type_schema name, \
            user_defined_type_name name, user_defined_type_category varchar, is_instantiable \
            varchar, is_final varchar, ordering_form varchar, ordering_category varchar, \
            ordering_routine_catalog name, ordering_routine_schema name, ordering_routine_name \
            name, reference_type varchar, data_type varchar, character_maximum_length int4, \
            character_octet_length int4, character_set_catalog name, character_set_schema name, \
            character_set_name name, collation_catalog name, collation_schema name, collation_name \
            name, numeric_precision int4, numeric_precision_radix int4, numeric_scale int4, \
            datetime_precision int4, interval_type varchar, interval_precision int4, \
            source_dtd_identifier name, ref_dtd_identifier name",
    },
    Spec {
        name: "user_mapping_options",
        oid: 13550,
        columns: "authorization_identifier name, foreign_server_catalog name, foreign_server_name \
            name, option_name name, option_value varchar",
    },
    Spec {
        name: "user_mappings",
        oid: 13555,
        columns: "authorization_identifier name, foreign_server_catalog name, foreign_server_name \
            name",
    },
    Spec {
        name: "view_column_usage",
        oid: 13468,
        columns: "view_catalog name, view_schema name, view_name name, table_catalog name, \
            table_schema name, table_name name, column_name name",
    },
    Spec {
        name: "view_routine_usage",
        oid: 13473,
        columns: "table_catalog name, table_schema name, table_name name, specific_catalog name, \
            specific_schema name, specific_name name",
    },
    Spec {
        name: "view_table_usage",
        oid: 13478,
        columns: "view_catalog name, view_schema name, view_name name, table_catalog name, \
            table_schema name, table_name name",
    },
    Spec {
        name: "views",
        oid: 13483,
        columns: "table_catalog name, table_schema name, table_name name, view_definition varchar, \
            check_option varchar, is_updatable varchar, is_insertable_into varchar, \
            is_trigger_updatable varchar, is_trigger_deletable varchar, is_trigger_insertable_into \
            varchar",
    },
];
