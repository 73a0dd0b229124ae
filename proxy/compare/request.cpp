#include "proxy/compare/request.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <filesystem>
#include <set>
#include <system_error>
#include <utility>

#include "config/command_line.hpp"
#include "config/load.hpp"
#include "config/values.hpp"
#include "metrics/compare/samples/log_reading.hpp"

namespace weir::proxy::compare {
namespace {

using config::Problem;
using config::Seconds;
using metrics::compare::sides::By;

Problem problem(std::string_view option, std::string_view value, std::string_view must) {
  return {std::string(option).append(" \"").append(config::one_line(value)).append("\": ").append(must)};
}

template <class Number>
std::optional<Number> number_in(std::string_view text) {
  Number number{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return number;
}

std::int64_t microseconds(Seconds time) { return std::llround(time.count() * 1e6); }

/// Times beyond thirty years are none.
std::optional<Seconds> duration(std::string_view text) {
  const auto time = config::parse_duration(text);
  return time && time->count() <= 1e9 ? time : std::nullopt;
}

/// Reads a time, where a number alone is in seconds.
std::optional<Seconds> threshold(std::string_view text) {
  if (const auto time = duration(text)) return time;
  const auto number = number_in<double>(text);
  return number && *number > 0 && *number <= 1e9 ? std::optional(Seconds(*number)) : std::nullopt;
}

/// Returns null for a key that is none.
std::optional<Seconds>* threshold_of(config::Slo& slo, std::string_view key) {
  if (key == "ttft_client") return &slo.ttft_client;
  if (key == "ttft") return &slo.ttft;
  if (key == "tpot") return &slo.tpot;
  return key == "e2e" ? &slo.e2e : nullptr;
}

/// Returns null for a name that is none.
double* margin_of(metrics::compare::statistics::Margins& margins, std::string_view name) {
  if (name == "ttft") return &margins.ttft;
  if (name == "tpot") return &margins.tpot;
  if (name == "e2e") return &margins.e2e;
  if (name == "output_tokens") return &margins.output_tokens;
  if (name == "misses") return &margins.misses;
  return name == "errors" ? &margins.failed : nullptr;
}

/// Reads 5% or 0.05, between 0 and `most`; a number alone is below 1, because 5 may be meant for 5%.
std::optional<double> share(std::string_view text, double most) {
  const bool percent = text.ends_with('%');
  if (percent) text.remove_suffix(1);
  const auto number = number_in<double>(text);
  if (!number || !std::isfinite(*number) || (!percent && *number >= 1)) return std::nullopt;
  const double value = percent ? *number / 100 : *number;
  return value > 0 && value <= most ? std::optional(value) : std::nullopt;
}

/// Fills a request step by step, up to the first problem.
class Reading {
 public:
  Reading(const CompareOptions& options, std::optional<config::Settings> in_use)
      : options_(options), settings_(std::move(in_use)) {}

  config::Parsed<Request> read() {
    request_.pool = options_.pool;
    request_.all_sides = options_.sides == "all";
    request_.by = options_.by == "replica" ? By::replica : options_.by == "role" ? By::role : By::config;
    if (options_.logs.empty() && !settings_) {
      return Problem{"weir compare: name a request log, such as requests.jsonl, or several; - is standard input"};
    }
    if (!page() || !settings() || !times() || !objective() || !prompt_tokens() || !costs() || !margins() || !margin())
      return problem_;
    return std::move(request_);
  }

 private:
  bool refuse(Problem why) {
    problem_ = std::move(why);
    return false;
  }

  bool page() {
    if (options_.html == "-")
      return refuse(problem("--html", "-", "must be a file, such as report.html; the report itself is printed"));
    const auto is_page = [&](const std::string& file) {
      std::error_code unknown;
      if (file == "-" && !std::filesystem::is_regular_file(options_.html, unknown)) return false;
      return std::filesystem::equivalent(options_.html, file == "-" ? "/dev/stdin" : file, unknown);
    };
    if (std::ranges::any_of(options_.logs, is_page) || is_page(options_.floor))
      return refuse(problem("--html", options_.html, "is a log, and would be lost; name another file"));
    if (is_page(options_.config))
      return refuse(problem("--html", options_.html, "has the settings, which would be lost; name another file"));
    return true;
  }

  bool settings() {
    if (!settings_ && !options_.config.empty()) {
      auto loaded = config::load_file(options_.config);
      if (const auto* errors = std::get_if<std::vector<config::SettingsError>>(&loaded)) {
        std::string text;
        for (const auto& error : *errors) text += (text.empty() ? "" : "\n") + error.text();
        return refuse({text});
      }
      settings_ = std::get<config::Settings>(std::move(loaded));
    }
    if (settings_) take_replicas();
    return true;
  }

  void take_replicas() {
    // The addresses of a name are replicas with names of their own, and one configuration.
    const auto name_of = [](const config::Replica& replica) { return replica.expand ? replica.config : replica.name; };
    const auto take_cost = [&](const config::Replica& replica) {
      if (replica.cost_per_hour) request_.costs[name_of(replica)] = *replica.cost_per_hour;
    };
    for (const auto& pool : settings_->pools) std::ranges::for_each(pool.replicas, take_cost);
    for (const auto& shadow : settings_->shadows) {
      for (const auto& replica : shadow.replicas) {
        take_cost(replica);
        if (replica.kv_tokens) request_.kv_tokens[name_of(replica)] = *replica.kv_tokens;
      }
    }
  }

  bool moment(std::string_view option, const std::string& text, std::optional<When>& when) {
    if (text.empty()) return true;
    if (const auto us = metrics::compare::samples::parse_rfc3339(text)) {
      when = When{*us, false};
    } else if (const auto before = duration(text)) {
      when = When{microseconds(*before), true};
    } else {
      return refuse(problem(
          option, text, "must be a moment such as 2026-11-21T07:00:00Z, or a time before the last request such as 2h"));
    }
    return true;
  }

  bool positive(std::string_view option, const std::string& text, bool zero, double& seconds) {
    const auto time = duration(text);
    if (!time || (time->count() <= 0 && !zero))
      return refuse(problem(option, text, "must be a time such as 60s or 30m"));
    seconds = time->count();
    return true;
  }

  bool times() {
    double length = 0;
    if (!moment("--from", options_.from, request_.from) || !moment("--to", options_.to, request_.to)) return false;
    if (!positive("--warm-up", options_.warm_up, true, request_.warm_up_s)) return false;
    if (options_.length.empty()) return true;
    if (request_.to && request_.from)
      return refuse({"--for, --from and --to together are one too many; leave one out"});
    if (!positive("--for", options_.length, false, length)) return false;
    request_.length_us = microseconds(Seconds(length));
    return true;
  }

  bool objective() {
    const std::string_view text = options_.slo;
    if (text.empty()) return true;
    if (text.find('=') == std::string_view::npos) return objective_of_settings(text);
    config::Slo slo;
    for (std::string_view rest = text; !rest.empty();) {
      const auto part = rest.substr(0, rest.find(','));
      rest.remove_prefix(std::min(part.size() + 1, rest.size()));
      const auto equals = part.find('=');
      auto* const limit = threshold_of(slo, part.substr(0, equals));
      const auto value = equals == std::string_view::npos ? std::nullopt : threshold(part.substr(equals + 1));
      if (!limit || !value) {
        return refuse(
            problem("--slo", text,
                    "must be the name of an [[slo]], or thresholds such as ttft_client=1,tpot=0.05; known are "
                    "ttft_client, ttft, tpot and e2e, in seconds or with a unit"));
      }
      if (limit->has_value())
        return refuse(problem("--slo", text, "has " + std::string(part.substr(0, equals)) + " twice; leave one out"));
      *limit = *value;
    }
    request_.slo = slo;
    return true;
  }

  bool objective_of_settings(std::string_view name) {
    if (!settings_) {
      return refuse(problem("--slo", name,
                            "is the name of an objective, so --config FILE must say which settings have it; or give "
                            "thresholds, such as ttft_client=1,tpot=0.05"));
    }
    std::vector<std::string_view> names;
    for (const auto& slo : settings_->slos) {
      if (slo.name == name) {
        request_.slo = slo;
        if (request_.pool.empty()) request_.pool = slo.pool;
        return true;
      }
      names.push_back(slo.name);
    }
    std::string must = "is no [[slo]] of " + (options_.config.empty() ? "the settings" : options_.config);
    if (const auto meant = config::nearest(name, names); !meant.empty())
      must += "; did you mean \"" + std::string(meant) + "\"?";
    return refuse(problem("--slo", name, must));
  }

  bool prompt_tokens() {
    const std::string_view text = options_.prompt_tokens;
    if (text.empty()) return true;
    const auto dash = text.find('-');
    const auto low = number_in<std::uint32_t>(text.substr(0, dash));
    // Without a dash it is the empty text, which is no number.
    const auto high = number_in<std::uint32_t>(text.substr(dash == std::string_view::npos ? text.size() : dash + 1));
    if (!low || !high || *high < *low)
      return refuse(problem("--prompt-tokens", text, "must be a range such as 0-4096"));
    request_.prompt_tokens = PromptRange{*low, *high};
    return true;
  }

  bool costs() {
    std::set<std::string_view> named;
    for (const std::string_view text : options_.costs) {
      const auto equals = text.rfind('=');
      const auto cost = equals == std::string_view::npos ? std::nullopt : number_in<double>(text.substr(equals + 1));
      if (!cost || !std::isfinite(*cost) || *cost < 0 || equals == 0)
        return refuse(
            problem("--cost", text, "must be a replica or configuration and what it costs an hour: gpu0=0.80"));
      if (!named.insert(text.substr(0, equals)).second)
        return refuse(problem("--cost", text, "is there twice; leave one out"));
      request_.costs[std::string(text.substr(0, equals))] = *cost;
    }
    return true;
  }

  bool margins() {
    std::set<const double*> named;
    for (const std::string_view text : options_.margins) {
      const auto equals = text.find('=');
      const auto name = text.substr(0, equals);
      double* const known = margin_of(request_.margins, name);
      const auto text_of = equals == std::string_view::npos ? std::string_view{} : text.substr(equals + 1);
      const auto value = share(text_of, name == "errors" || name == "misses" ? 1 : 10);
      if (!known || !value) {
        return refuse(
            problem("--margins", text,
                    "must be ttft, tpot, e2e, output_tokens, misses or errors, and how much worse that may be, such as "
                    "tpot=5% or, of the requests, misses=0.2%; a number alone is a share below 1"));
      }
      if (!named.insert(known).second) return refuse(problem("--margins", text, "is there twice; leave one out"));
      *known = *value;
    }
    return true;
  }

  bool margin() {
    if (!(options_.margin > 0 && options_.margin < 1))
      return refuse(
          problem("--margin", config::format_number(options_.margin), "must be between 0 and 1, such as 0.02"));
    return true;
  }

  const CompareOptions& options_;
  std::optional<config::Settings> settings_;
  Request request_;
  Problem problem_;
};

}  // namespace

config::Parsed<Request> request_of(const CompareOptions& options, std::optional<config::Settings> in_use) {
  return Reading(options, std::move(in_use)).read();
}

}  // namespace weir::proxy::compare
