locals {
  balancer = { namespace = "AWS/ApplicationELB", dimensions = module.load_balancer.dimensions.load_balancer }
  targets  = { namespace = "AWS/ApplicationELB", dimensions = module.load_balancer.dimensions.targets }
  # Published by serving/emf.py, from what the service's processes count.
  routers = { namespace = "Canopy", dimensions = { Service = module.router.name } }
  servers = { namespace = "Canopy", dimensions = { Service = module.server.name } }
}

module "alarms" {
  source    = "../../modules/alarms"
  name      = var.name
  topic_arn = module.alerts.topic_arn
  alarms = {
    slow = {
      description = "p99 above 5 s for 10 minutes: more than 1% of the requests took longer."
      above       = 1
      minutes     = 10
      expression  = "100 * slow / requests"
      metrics = {
        slow     = merge(local.routers, { name = "canopy:slow_requests", stat = "Sum" })
        requests = merge(local.routers, { name = "canopy:finished_requests", stat = "Sum" })
      }
    }
    errors = {
      description = "More than 5% of the requests end in a 5xx."
      above       = 5
      minutes     = 5
      expression  = "100 * (FILL(service, 0) + FILL(balancer, 0)) / requests"
      metrics = {
        service  = merge(local.balancer, { name = "HTTPCode_Target_5XX_Count", stat = "Sum" })
        balancer = merge(local.balancer, { name = "HTTPCode_ELB_5XX_Count", stat = "Sum" })
        requests = merge(local.balancer, { name = "RequestCount", stat = "Sum" })
      }
    }
    queue = {
      description = "Requests wait for a place in the batch: add servers."
      above       = var.queue_alarm
      minutes     = 5
      metrics     = { waiting = merge(local.servers, { name = "vllm:num_requests_waiting", stat = "Average" }) }
    }
    acceptance = {
      description = "Drafts are hardly accepted: is the head the model's, did the traffic change?"
      below       = var.acceptance_alarm_percent
      minutes     = 15
      expression  = "100 * accepted / drafted"
      metrics = {
        accepted = merge(local.servers, { name = "vllm:spec_decode_num_accepted_tokens", stat = "Sum" })
        drafted  = merge(local.servers, { name = "vllm:spec_decode_num_draft_tokens", stat = "Sum" })
      }
    }
    no-router = {
      description    = "No router answers the load balancer."
      below          = 1
      minutes        = 2
      missing_is_bad = true
      metrics        = { healthy = merge(local.targets, { name = "HealthyHostCount", stat = "Minimum" }) }
    }
    no-verifier = {
      description    = "No verifier reports: no GPU machine, a model that does not load, or a dead engine."
      below          = 1
      minutes        = 5
      missing_is_bad = true
      metrics        = { reports = merge(local.servers, { name = "vllm:num_requests_running", stat = "SampleCount" }) }
    }
  }
}
