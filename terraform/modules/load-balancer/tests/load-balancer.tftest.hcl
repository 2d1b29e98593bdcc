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
  name            = "canopy"
  vpc_id          = "vpc-0123456789abcdef0"
  subnet_ids      = ["subnet-0123456789abcdef0", "subnet-0123456789abcdef1"]
  client_cidrs    = ["10.0.0.0/8"]
  certificate_arn = "arn:aws:acm:eu-central-1:123456789012:certificate/11111111-2222-3333-4444-555555555555"
  target_port     = 8000
  health_path     = "/health"
  logs_bucket     = "canopy-logs-123456789012"
}

run "https_to_what_is_healthy" {
  command = plan
  assert {
    condition     = aws_lb_listener.https.protocol == "HTTPS" && aws_lb.this.internal
    error_message = "keys and prompts in the clear, or open to the internet by default"
  }
  assert {
    condition     = aws_lb_target_group.this.health_check[0].interval == 10 && aws_lb_target_group.this.health_check[0].unhealthy_threshold == 3
    error_message = "a dead router stays in for longer than half a minute"
  }
  assert {
    condition     = aws_lb.this.access_logs[0].enabled && aws_lb.this.drop_invalid_header_fields
    error_message = "access is not logged"
  }
}

run "without_a_certificate" {
  command = plan
  variables { certificate_arn = "" }
  expect_failures = [var.certificate_arn]
}
