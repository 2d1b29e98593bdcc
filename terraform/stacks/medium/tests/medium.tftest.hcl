# Nothing is looked up in an account; what modules give each other is made up.
mock_provider "aws" {
  mock_data "aws_caller_identity" {
    defaults = { account_id = "123456789012" }
  }
  mock_data "aws_partition" {
    defaults = { partition = "aws" }
  }
  mock_data "aws_region" {
    defaults = { region = "eu-central-1" }
  }
  mock_data "aws_iam_policy_document" {
    defaults = { json = "{\"Version\":\"2012-10-17\",\"Statement\":[]}" }
  }
  mock_data "aws_ssm_parameter" {
    defaults = { value = "ami-0123456789abcdef0" }
  }
}

override_module {
  target  = module.models
  outputs = { name = "canopy-models-123456789012", arn = "arn:aws:s3:::canopy-models-123456789012" }
}

override_module {
  target = module.registry
  outputs = {
    urls = { "canopy/server" = "123456789012.dkr.ecr.eu-central-1.amazonaws.com/canopy/server" }
    arns = ["arn:aws:ecr:eu-central-1:123456789012:repository/canopy/server"]
  }
}

variables {
  environment        = "prod"
  owner              = "search-team"
  region             = "eu-central-1"
  zones              = ["eu-central-1a", "eu-central-1b"]
  client_cidrs       = ["10.0.0.0/8"]
  certificate_arn    = "arn:aws:acm:eu-central-1:123456789012:certificate/11111111-2222-3333-4444-555555555555"
  image_tag          = "0.1.0-cuda"
  model_prefix       = "llama-3.1-8b-instruct"
  head_prefix        = "llama-3.1-8b-eagle3"
  monthly_budget_usd = 1500
}

# tests/terraform/test_medium.py checks the same file against Ray's and our own schemas.
run "what_the_tasks_start_is_what_is_checked" {
  command = plan
  assert {
    condition     = jsonencode(local.serve_config) == jsonencode(jsondecode(file("tests/started.json")).serve_config)
    error_message = "SERVE_CONFIG is not that of tests/started.json: ${jsonencode(local.serve_config)}"
  }
  assert {
    condition     = local.head_command == jsondecode(file("tests/started.json")).head_command
    error_message = "not that of tests/started.json: ${local.head_command}"
  }
  assert {
    condition     = local.server_command == jsondecode(file("tests/started.json")).server_command
    error_message = "not that of tests/started.json: ${local.server_command}"
  }
  assert {
    condition     = jsonencode(sort(concat(keys(local.environment), keys(local.secrets)))) == jsonencode(jsondecode(file("tests/started.json")).environment)
    error_message = "other variables than in tests/started.json"
  }
}

run "what_others_set_is_kept_and_what_follows_is_not_lost" {
  command = plan
  variables {
    servers     = { count = 3, on_demand = 1 }
    head_prefix = null
    settings    = { engine = { max_model_len = 8192 }, speculation = { mode = "fixed", num_speculative_tokens = 4 } }
  }
  assert {
    condition     = local.serve_config.applications[0].args.engine.max_model_len == 8192 && local.serve_config.applications[0].args.speculation.num_speculative_tokens == 4
    error_message = "settings are lost"
  }
  assert {
    condition     = local.serve_config.applications[0].args.speculation.placement == "colocated" && !can(local.serve_config.applications[0].args.speculation.head)
    error_message = "there is no pool of drafters here, and no head was given"
  }
  assert {
    condition     = local.serve_config.applications[0].args.replicas.verifiers == 3
    error_message = "a GPU is left idle"
  }
}

run "everything_is_tagged" {
  command = plan
  assert {
    condition     = local.tags.Project == "canopy" && local.tags.Stack == "medium" && local.tags.Owner == "search-team"
    error_message = "costs cannot be told apart"
  }
}

run "a_tag_that_moves" {
  command = plan
  variables { image_tag = "latest" }
  expect_failures = [var.image_tag]
}

run "more_that_are_never_spot_than_there_are" {
  command = plan
  variables { servers = { count = 1, on_demand = 2 } }
  expect_failures = [var.servers]
}

run "settings_that_follow_from_variables" {
  command = plan
  variables { settings = { model = "default" } }
  expect_failures = [var.settings]
}
