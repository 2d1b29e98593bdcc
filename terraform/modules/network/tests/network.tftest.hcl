# Nothing is looked up in an account: the credentials are made up.
provider "aws" {
  region                      = "eu-central-1"
  access_key                  = "none"
  secret_key                  = "none"
  skip_credentials_validation = true
  skip_metadata_api_check     = true
  skip_requesting_account_id  = true
}

variables {
  name                = "canopy"
  region              = "eu-central-1"
  zones               = ["eu-central-1a", "eu-central-1b", "eu-central-1c"]
  interface_endpoints = ["ecr.api", "bedrock-runtime"]
  kms_key_arn         = "arn:aws:kms:eu-central-1:123456789012:key/11111111-2222-3333-4444-555555555555"
}

run "machines_cannot_reach_the_internet" {
  command = plan
  variables { public_subnets = false }

  assert {
    condition     = length(aws_subnet.private) == 3 && length(aws_subnet.public) == 0 && length(aws_internet_gateway.this) == 0
    error_message = "only private subnets were asked for"
  }
  assert {
    condition     = aws_vpc_endpoint.gateway["s3"].vpc_endpoint_type == "Gateway" && aws_vpc_endpoint.gateway["dynamodb"].vpc_endpoint_type == "Gateway"
    error_message = "S3 and DynamoDB are reached by gateways, which cost nothing"
  }
  assert {
    condition     = aws_vpc_endpoint.interface["bedrock-runtime"].service_name == "com.amazonaws.eu-central-1.bedrock-runtime"
    error_message = "an endpoint that was asked for is missing"
  }
  assert {
    condition     = aws_cloudwatch_log_group.flow.retention_in_days == 7 && aws_flow_log.rejected.traffic_type == "REJECT"
    error_message = "rejected packets are kept for a week"
  }
}

run "subnets_do_not_overlap" {
  command = plan
  assert {
    condition     = [for zone in var.zones : aws_subnet.private[zone].cidr_block] == ["10.40.0.0/20", "10.40.16.0/20", "10.40.32.0/20"]
    error_message = "private subnets are the first sixteenths"
  }
  assert {
    condition     = [for zone in var.zones : aws_subnet.public[zone].cidr_block] == ["10.40.240.0/24", "10.40.241.0/24", "10.40.242.0/24"]
    error_message = "public subnets are at the end"
  }
  assert {
    condition     = alltrue([for subnet in aws_subnet.public : !subnet.map_public_ip_on_launch])
    error_message = "nothing gets a public address by itself"
  }
}

run "a_range_too_small" {
  command = plan
  variables { cidr = "10.40.0.0/24" }
  expect_failures = [var.cidr]
}

run "one_zone_is_not_enough" {
  command = plan
  variables { zones = ["eu-central-1a"] }
  expect_failures = [var.zones]
}
