# HTTPS to the routers. A target is asked every 10 s and out after 3 failures.

resource "aws_security_group" "this" {
  name        = "${var.name}-load-balancer"
  description = "HTTPS from the clients"
  vpc_id      = var.vpc_id
  tags        = { Name = "${var.name}-load-balancer" }
}

resource "aws_vpc_security_group_ingress_rule" "clients" {
  for_each          = toset(var.client_cidrs)
  security_group_id = aws_security_group.this.id
  description       = "HTTPS from a client network"
  cidr_ipv4         = each.key
  ip_protocol       = "tcp"
  from_port         = 443
  to_port           = 443
}

resource "aws_lb" "this" {
  #checkov:skip=CKV2_AWS_28:requests are authenticated by the routers; to add a web ACL, associate it with the output arn
  #checkov:skip=CKV_AWS_150:nothing is lost with it, and a stack that cannot be destroyed costs money
  name                       = var.name
  load_balancer_type         = "application"
  internal                   = var.internal
  subnets                    = var.subnet_ids
  security_groups            = [aws_security_group.this.id]
  idle_timeout               = var.idle_timeout_s
  drop_invalid_header_fields = true
  desync_mitigation_mode     = "strictest"

  access_logs {
    bucket  = var.logs_bucket
    prefix  = "load-balancer"
    enabled = true
  }
}

resource "aws_lb_target_group" "this" {
  #checkov:skip=CKV_AWS_378:between load balancer and router it is plain HTTP inside two security groups; Ray Serve's proxy ends no TLS
  name                          = var.name
  vpc_id                        = var.vpc_id
  target_type                   = "ip"
  port                          = var.target_port
  protocol                      = "HTTP"
  deregistration_delay          = 120
  load_balancing_algorithm_type = "least_outstanding_requests"

  health_check {
    path                = var.health_path
    interval            = 10
    timeout             = 5
    healthy_threshold   = 2
    unhealthy_threshold = 3
    matcher             = "200"
  }
}

resource "aws_lb_listener" "https" {
  load_balancer_arn = aws_lb.this.arn
  port              = 443
  protocol          = "HTTPS"
  ssl_policy        = "ELBSecurityPolicy-TLS13-1-2-2021-06"
  certificate_arn   = var.certificate_arn

  default_action {
    type             = "forward"
    target_group_arn = aws_lb_target_group.this.arn
  }
}
