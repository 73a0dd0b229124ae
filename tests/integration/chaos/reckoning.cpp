#include "tests/integration/chaos/reckoning.hpp"

#include <algorithm>
#include <boost/json.hpp>
#include <map>
#include <set>
#include <sstream>
#include <utility>

#include "metrics/series/shard.hpp"

namespace weir::chaos {
namespace {

using integration::member;
using Line = boost::json::object;

std::string tell(const Seen& seen, const Line& line) {
  static constexpr const char* ends[]{"whole", "cut", "left", "nothing"};
  std::ostringstream text;
  static constexpr const char* keys[]{"", ", with a wrong key", ", without a key"};
  text << seen.id << ", request " << seen.on_connection << " of its connection" << keys[static_cast<int>(seen.key)]
       << ": the client saw " << ends[static_cast<int>(seen.end)] << ' ' << seen.status << " of '" << seen.replica
       << "' with " << seen.bytes << " bytes" << (seen.complete ? ", complete" : "")
       << (seen.error ? ", an error event" : "") << "; the log says " << boost::json::serialize(line);
  return text.str();
}

bool has(const Line& line, std::string_view name) {
  const auto value = member(line, name);
  return value != "null" && value != "absent";
}

bool reached_a_replica(const Line& line) { return has(line, "replica"); }

/// True for what weir does not look into: paths that it does not know, and everything while it is bypassed.
bool is_unread(const Line& line) { return member(line, "api") == "other"; }

bool is_measured(const Line& line) {
  for (const auto* const name : {"ttft_s", "ttft_client_s", "tpot_s", "prompt_tokens", "output_tokens", "prompt_chars",
                                 "output_chars", "finish_reason"})
    if (has(line, name)) return true;
  return member(line, "events") != "0";
}

/// weir's memory for requests, or a key's share of it, was spent before the request had a pool.
bool had_no_memory(const Line& line) {
  return member(line, "outcome") == "rejected" && member(line, "status") == "503" && !has(line, "pool");
}

/// The memory was spent within the request's head, so that weir knows neither its name nor its key.
bool is_nameless(const Line& line) { return !has(line, "client_id") && had_no_memory(line); }

double number(const Line& line, std::string_view name) { return has(line, name) ? std::stod(member(line, name)) : 0; }

/// Returns what is wrong with what weir says of a request, or "".
std::string disagreement(const Seen& seen, const Line& line) {
  const auto outcome = member(line, "outcome");
  const bool ok = outcome == "ok" || outcome == "ok_empty", unread = is_unread(line);
  const bool kept_out = !reached_a_replica(line) && member(line, "status") == "401";
  if (is_nameless(line) && seen.status == 503) return "";  // Its key has not been looked at.
  if (kept_out != (seen.key != Seen::Key::right)) return kept_out ? "a right key was refused" : "no key was needed";
  if (number(line, "prefix_predicted") > number(line, "prefix_best")) return "more was predicted than the best has";
  if (unread && is_measured(line)) return "something was measured of what was not read";
  if (seen.wrong) return "the client has bytes that the replica did not send so";
  if (seen.end == Seen::End::left) return "";
  if (seen.complete && !ok) return "the client has all, and weir counts no success";
  // By the marker such a client has all, although the framing's end may be missing.
  const bool has_all = seen.half_closed && seen.marked;
  if (seen.end == Seen::End::cut && ok && !has_all) return "the client was cut, and weir counts a success";
  if (seen.end == Seen::End::whole && seen.error && ok && !unread)
    return "the client has an error, and weir counts a success";
  if (seen.end == Seen::End::nothing && outcome != "client_abort") return "the client has nothing";
  if (seen.end == Seen::End::nothing) return "";
  if (member(line, "status") != std::to_string(seen.status)) return "the status differs";
  if (member(line, "id") != seen.weir_id) return "x-weir-id differs";
  if (!seen.replica.empty() && member(line, "replica") != seen.replica) return "the replica differs";
  if (!seen.replica.empty() && outcome != "client_abort" && member(line, "bytes_out") != std::to_string(seen.bytes))
    return "the bytes differ";
  return "";
}

/// The sums over the log lines of the primaries, of one replica or of all.
struct Sums {
  std::map<std::string, double> of_outcomes;
  std::map<std::pair<std::string, std::string>, double> of_apis;
  double requests = 0, first_tokens = 0, client_first_tokens = 0, durations = 0, waits = 0, prompt_tokens = 0;
  double output_tokens = 0, sent_again = 0, without_memory = 0;
  double prefix_predicted = 0, prefix_best = 0;

  void add(const Line& line) {
    prefix_predicted += number(line, "prefix_predicted");
    prefix_best += number(line, "prefix_best");
    const auto outcome = member(line, "outcome");
    ++requests;
    ++of_outcomes[outcome];
    ++of_apis[{member(line, "api"), outcome}];
    first_tokens += has(line, "ttft_s");
    client_first_tokens += has(line, "ttft_client_s");
    const bool served = member(line, "served") == "true";
    durations += served && has(line, "e2e_s");
    waits += served && has(line, "queue_s");
    prompt_tokens += number(line, "prompt_tokens");
    output_tokens += number(line, "output_tokens");
    sent_again += std::max(0.0, number(line, "attempt") - 1);
    without_memory += had_no_memory(line);
  }
};

/// The sums over the log lines of the shadows.
struct ShadowSums {
  std::map<std::string, double> sent, results;
  double first_tokens = 0, output_tokens = 0;

  void add(const Line& line) {
    if (has(line, "drop_reason")) {
      ++results[member(line, "drop_reason")];
      return;
    }
    ++results["sent"];
    ++sent[member(line, "outcome")];
    first_tokens += has(line, "ttft_s");
    output_tokens += number(line, "output_tokens");
  }
};

using Labels = integration::MetricsPage::Labels;

/// Notes where a page has another number than the log.
class Comparison {
 public:
  Comparison(const integration::MetricsPage& page, std::vector<std::string>& disagreements)
      : page_(page), disagreements_(disagreements) {}
  /// While it is true, the page may have less than the log.
  void may_have_begun_anew(bool may) { less_ = may; }
  double sum(const std::string& series, const Labels& labels) const { return page_.sum(series, labels); }
  void expect(double wanted, const std::string& series, const Labels& labels, const Labels& more = {}) {
    auto all = labels;
    all.insert(all.end(), more.begin(), more.end());
    differs(sum(series, all), wanted, series, all);
  }
  /// Expects a number of one series less that of another.
  void expect_less(double wanted, const std::string& series, const std::string& less, const Labels& labels) {
    differs(sum(series, labels) - sum(less, labels), wanted, series + " - " + less, labels);
  }
  void differs(double counted, double wanted, const std::string& what, const Labels& labels) {
    if (counted == wanted || (less_ && counted < wanted)) return;
    std::ostringstream text;
    text << what << "{";
    for (const auto& [name, value] : labels) text << ' ' << name << '=' << value;
    text << " } is " << counted << ", the log and the clients have " << wanted;
    disagreements_.push_back(text.str());
  }

 private:
  const integration::MetricsPage& page_;
  std::vector<std::string>& disagreements_;
  bool less_ = false;
};

/// `of` are the labels of one replica, or of all primaries.
void compare(const Sums& sums, const Labels& of, Comparison& page) {
  for (const auto& [outcome, n] : sums.of_outcomes) page.expect(n, "weir_requests_total", of, {{"outcome", outcome}});
  for (const auto& [api, n] : sums.of_apis)
    page.expect(n, "weir_api_requests_total", of, {{"api", api.first}, {"outcome", api.second}});
  for (const auto* const series : {"weir_requests_total", "weir_api_requests_total"})
    page.expect(sums.requests, series, of);
  page.expect(sums.first_tokens, "weir_time_to_first_token_seconds_count", of);
  page.expect(sums.client_first_tokens, "weir_client_time_to_first_token_seconds_count", of);
  page.expect(sums.durations, "weir_request_duration_seconds_count", of);
  page.expect(sums.prompt_tokens, "weir_prompt_tokens_total", of);
  page.expect_less(sums.output_tokens, "weir_output_tokens_total", "weir_output_tokens_overcounted_total", of);
  page.expect(sums.waits, "weir_queue_duration_seconds_count", of);
}

/// Each replica by itself. The page has nothing of those that the log does not name, and of those that are gone.
void compare(const std::map<std::string, Sums>& sums, const Names& names, Comparison& page) {
  double counted = 0;
  for (const auto& [name, of_replica] : sums) {
    const Labels of{{"role", "primary"}, {"replica", name}};
    const bool gone = names.has_left(name) && !names.is_there(name);
    page.may_have_begun_anew(names.has_left(name));
    compare(gone ? Sums() : of_replica, of, page);
    counted += page.sum("weir_requests_total", of);
  }
  page.may_have_begun_anew(false);
  page.expect(counted, "weir_requests_total", {{"role", "primary"}});
}

void compare(ShadowSums sums, Comparison& page) {
  double sent = 0;
  for (const auto& [outcome, n] : sums.sent) {
    sent += n;
    page.expect(n, "weir_requests_total", {{"role", "shadow"}, {"outcome", outcome}});
    page.expect(n, "weir_api_requests_total", {{"role", "shadow"}, {"outcome", outcome}});
  }
  page.expect(sent, "weir_requests_total", {{"role", "shadow"}});
  page.expect(sent, "weir_api_requests_total", {{"role", "shadow"}});
  for (const auto result : metrics::series::mirrored_names)
    page.expect(sums.results[std::string(result)], "weir_shadow_requests_total", {{"result", result}});
  page.expect(sums.first_tokens, "weir_time_to_first_token_seconds_count", {{"role", "shadow"}});
  page.expect_less(sums.output_tokens, "weir_output_tokens_total", "weir_output_tokens_overcounted_total",
                   {{"role", "shadow"}});
}

}  // namespace

Reckoning reckon(const std::vector<Seen>& seen, std::size_t handshakes, const Names& names,
                 const integration::WeirUnderTest& weir) {
  Reckoning reckoning;
  auto& all = reckoning.disagreements;
  std::map<std::string, Line> lines;
  std::set<std::string> weir_ids;
  std::map<std::string, std::string> by_weir_id;
  for (const auto& one : seen) by_weir_id[one.weir_id] = one.id;
  std::size_t of_who_left = 0;
  Sums sums;
  std::map<std::string, Sums> of_replicas;
  ShadowSums shadows;
  std::istringstream log(weir.log_text());
  for (std::string text; std::getline(log, text);) {
    auto line = boost::json::parse(text).as_object();
    if (member(line, "role") == "shadow") {
      shadows.add(line);
      continue;
    }
    if (!weir_ids.insert(member(line, "id")).second) all.push_back("the log has an id twice: " + text);
    sums.add(line);
    of_replicas[reached_a_replica(line) ? member(line, "replica") : ""].add(line);
    reckoning.bypassed += is_unread(line) && reached_a_replica(line);
    // The client knows weir's name of the request, if it has read the answer.
    const bool nameless = is_nameless(line);
    const auto named = nameless ? by_weir_id.find(member(line, "id")) : by_weir_id.end();
    if (nameless && named == by_weir_id.end()) {
      ++of_who_left;
      continue;
    }
    const auto id = nameless ? named->second : member(line, "client_id");
    if (!lines.emplace(id, std::move(line)).second) all.push_back("the log has a request twice: " + text);
  }
  std::map<Seen::Key, double> shown;
  for (const auto& one : seen) {
    const auto found = lines.find(one.id);
    if (found == lines.end() && one.end == Seen::End::left && of_who_left > 0) {
      --of_who_left;
      continue;
    }
    if (found == lines.end() || !is_nameless(found->second)) ++shown[one.key];
    if (found == lines.end()) {
      all.push_back("weir has not logged what a client asked: " + tell(one, {}));
      continue;
    }
    if (const auto what = disagreement(one, found->second); !what.empty())
      all.push_back(what + ": " + tell(one, found->second));
    lines.erase(found);
  }
  if (of_who_left > 0) all.push_back("weir has refused " + std::to_string(of_who_left) + " requests that nobody asked");
  for (const auto& [id, line] : lines)
    all.push_back("weir has logged what nobody asked: " + boost::json::serialize(line));

  reckoning.without_memory = static_cast<std::size_t>(sums.without_memory);
  const auto metrics = weir.metrics();
  Comparison page(metrics, all);
  compare(of_replicas, names, page);
  page.may_have_begun_anew(names.any_has_left());
  compare(sums, {{"role", "primary"}}, page);
  // A stale connection's request counts as the same attempt.
  page.differs(metrics.sum("weir_retries_total", {{"role", "primary"}}) -
                   metrics.sum("weir_retries_total", {{"role", "primary"}, {"reason", "stale_connection"}}),
               sums.sent_again, "weir_retries_total but for stale_connection", {{"role", "primary"}});
  page.may_have_begun_anew(false);
  const auto tokens = [&](const char* kind) { return metrics.sum("weir_prefix_tokens_total", {{"kind", kind}}); };
  // A pool that looks at no prefixes, as the last reload may have left it, shows none of their series.
  if (!names.any_has_left() && tokens("looked_up") > 0) {
    // An attempt that was followed by another one stands in no line.
    const auto at_most = [&](double less, double more, const std::string& what) {
      if (less > more) page.differs(more, less, what, {});
    };
    at_most(sums.prefix_predicted, tokens("predicted"), "prefix_predicted of the log, at most");
    at_most(sums.prefix_best, tokens("best"), "prefix_best of the log, at most");
    at_most(tokens("predicted"), tokens("best"), "predicted tokens, at most the best");
    at_most(tokens("best"), tokens("looked_up"), "the best replicas' tokens, at most those looked up");
  }
  // A key's share is as large as all of the memory where that is small, so either limit may be the first.
  page.differs(metrics.sum("weir_limit_hits_total", {{"limit", "buffer_memory"}}) +
                   metrics.sum("weir_limit_hits_total", {{"limit", "buffer_share"}}),
               sums.without_memory + shadows.results["buffer_memory"], "weir_limit_hits_total",
               {{"limit", "buffer_memory or buffer_share"}});
  compare(std::move(shadows), page);
  page.expect(shown[Seen::Key::wrong], "weir_denied_requests_total", {{"reason", "wrong_key"}});
  page.expect(shown[Seen::Key::none], "weir_denied_requests_total", {{"reason", "no_key"}});
  page.differs(metrics.sum("weir_tls_handshakes_total", {{"side", "client"}, {"result", "full"}}) +
                   metrics.sum("weir_tls_handshakes_total", {{"side", "client"}, {"result", "resumed"}}),
               static_cast<double>(handshakes), "weir_tls_handshakes_total", {{"side", "client"}});
  page.expect(0, "weir_tls_handshakes_total", {{"side", "client"}, {"result", "failed"}});
  if (const auto full = integration::full_book(metrics); !full.empty()) all.push_back("at rest " + full);
  return reckoning;
}

}  // namespace weir::chaos
