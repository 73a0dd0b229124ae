#include "proxy/probe/replica.hpp"

#include <algorithm>
#include <array>
#include <boost/asio/io_context.hpp>
#include <span>
#include <utility>

#include "config/controls.hpp"
#include "metrics/measure/stream_meter.hpp"
#include "metrics/moment.hpp"
#include "metrics/series/shard.hpp"
#include "metrics/text.hpp"
#include "metrics/wire/json/writer.hpp"
#include "proxy/fleet/discovery.hpp"
#include "proxy/fleet/replica_stream.hpp"
#include "proxy/net/address.hpp"
#include "proxy/net/connect.hpp"
#include "proxy/net/tls/context.hpp"

namespace weir::proxy::probe {
namespace {

using fleet::Engine;
using fleet::Page;
using metrics::Api;
using metrics::Moment;
using metrics::measure::BodyForm;
using Duration = std::chrono::steady_clock::duration;

constexpr std::chrono::seconds page_limit{5};
constexpr std::size_t longest_page = 4 * 1024 * 1024;
constexpr std::size_t longest_refusal = 16 * 1024;

/// A prompt that fills several blocks of a prefix cache (vLLM: 16 tokens each), so that the second request finds some.
constexpr std::string_view prompt =
    "Count from one to ten. Write each number as an English word, in lower case, with a comma and a blank between two "
    "numbers and nothing before the first or behind the last of them. Do not explain what you do, do not greet, do not "
    "ask whether more is wanted, and do not say it in any other language. When you have come to ten, stop there and "
    "add "
    "nothing. Begin now, with the first of the numbers.";

struct Route {
  Api api;
  std::string_view path;
};
constexpr std::array<Route, 4> routes{{{Api::openai_chat, "/v1/chat/completions"},
                                       {Api::openai_completions, "/v1/completions"},
                                       {Api::tgi_generate, "/generate_stream"},
                                       {Api::llamacpp_completion, "/completion"}}};

bool is_openai(Api api) { return api == Api::openai_chat || api == Api::openai_completions; }

/// Returns the questions to ask on a route, one after the other where a replica refuses the one before.
std::span<const UsageQuestion> usage_questions(Api api) {
  static constexpr std::array all{UsageQuestion::at_end, UsageQuestion::none};
  return std::span(all).last(is_openai(api) ? 2 : 1);
}

/// Replaces a key wherever it stands in a text.
void hide(std::string_view key, std::string& text) {
  if (key.empty()) return;
  for (auto at = text.find(key); at != std::string::npos; at = text.find(key, at + 3))
    text.replace(at, key.size(), "***");
}

/// Measures a streamed answer as weir does; keeps the body of a refusal.
class StreamReader : public fleet::AnswerReader {
 public:
  StreamReader(Api api, std::string_view api_key) : api_key_(api_key) { record_.facts.api = api; }

  void head(const http::ResponseHead& head, Moment sent, Moment at) override {
    status_ = head.status;
    content_type_ = head["content-type"];
    const auto coding = head["content-encoding"];
    metrics::measure::StreamMeter::Options options;
    options.api = record_.facts.api;
    form_ = metrics::measure::body_form(options.api, status_, content_type_,
                                        !coding.empty() && !http::same_token(coding, "identity"));
    options.form = form_;
    options.received = options.sent = sent;
    meter_.emplace(options, shard_);
    record_.facts.stream = true;
    record_.received = sent;
    record_.sent = sent;
    record_.head = at;
  }

  bool body(std::span<const char> bytes, Moment at) override {
    if (status_ / 100 != 2) {
      refusal_.append(bytes.data(), std::min(bytes.size(), longest_refusal - refusal_.size()));
      return true;
    }
    last_read_ = at;
    static_cast<void>(meter_->arrived(bytes, at));
    return true;
  }

  void end(bool whole, bool framed, Moment at) override {
    ended_ = true;
    // An event stream that has shown its end marker is whole, however its connection ended.
    static_cast<void>(meter_->ended(whole || meter_->complete(), framed, at));
  }

  unsigned status() const { return status_; }
  std::string refusal() const {
    // Some engines repeat the key that they refuse. It is replaced before the text is cut.
    auto body = refusal_;
    hide(api_key_, body);
    const auto message = fleet::refusal_message(body);
    return "status " + std::to_string(status_) + (message.empty() ? "" : " (" + message + ")");
  }

  /// Returns why the answer does not count; "" if it does. It is to be called once, after the exchange.
  std::string failure(const fleet::QuestionResult& exchanged) {
    if (!meter_) return exchanged.why;
    if (status_ / 100 != 2) return refusal();
    if (!ended_) end(false, true, last_read_);
    const auto& seen = meter_->answer();
    if (seen.in_band_error) return "it answers with status 200 and then with an error in the stream";
    if (form_ != BodyForm::sse)
      return "it answers with \"" + config::printable_ascii(content_type_, 128) +
             "\" where an event stream was asked for";
    if (seen.complete == metrics::Completeness::none)
      return exchanged.why.empty() ? "its stream ends too early" : exchanged.why;
    return seen.token_events == 0 ? "its stream brings no token" : "";
  }

  ProbedStream stream() {
    record_.answer = meter_->answer();
    record_.outcome = metrics::Outcome::ok;
    const auto& seen = record_.answer;
    ProbedStream stream;
    stream.api = record_.facts.api;
    stream.figures = metrics::record::figures_of(record_);
    stream.prompt_tokens = seen.prompt_tokens;
    stream.cached_tokens = seen.cached_tokens;
    stream.output_tokens = seen.output_tokens;
    stream.token_events = seen.token_events;
    stream.token_source = seen.token_source;
    stream.tokens_per_event = seen.tokens_per_event;
    return stream;
  }

 private:
  std::string_view api_key_;
  metrics::series::ReplicaShard shard_;
  std::optional<metrics::measure::StreamMeter> meter_;
  metrics::record::RequestRecord record_;
  BodyForm form_ = BodyForm::opaque;
  unsigned status_ = 0;
  std::string content_type_, refusal_;
  Moment last_read_{};
  bool ended_ = false;
};

/// The conversation with one replica, question by question.
class Probe {
 public:
  Probe(const config::Settings& settings, const config::Pool& pool, const config::Replica& replica,
        Duration stream_limit)
      : settings_(settings), pool_(pool), replica_(replica), stream_limit_(stream_limit) {
    connect_limit_ = metrics::ticks(settings.limits.connect);
  }

  ProbeReport run() {
    auto found = addresses_of(replica_.url, settings_.discovery.nameserver, connect_limit_);
    if (auto* why = std::get_if<std::string>(&found)) {
      report_.failure = std::move(*why);
      return std::move(report_);
    }
    addresses_ = std::get<Addresses>(std::move(found));
    if (replica_.url.tls) {
      const auto& name = replica_.tls.server_name.empty() ? replica_.url.host : replica_.tls.server_name;
      addresses_.first.tls =
          std::make_shared<const net::tls::Target>(std::make_shared<const net::tls::ClientContext>(replica_.tls), name);
    }
    if (!ask_pages()) return std::move(report_);
    const auto model = model_to_ask();
    if (find_route(model)) ask_again(model);
    return std::move(report_);
  }

 private:
  fleet::QuestionResult exchange(fleet::Question question, Duration limit, fleet::AnswerReader& reader) {
    question.user_agent = "weir-probe";
    question.credential = fleet::bearer(replica_.api_key);
    return exchange_with(addresses_, replica_.url, question, {connect_limit_, limit}, settings_.measure.clock, reader);
  }

  /// Returns false if it cannot be reached or hangs. If it hangs on some pages only, it is asked for no more of them.
  bool ask_pages() {
    fleet::Pages pages;
    for (std::size_t i = 0; i < fleet::page_paths.size(); ++i) {
      if (pages[Page::server_info].status == 200 && i == static_cast<std::size_t>(Page::get_server_info)) continue;
      if (pages[Page::model_info].status == 200 && i == static_cast<std::size_t>(Page::get_model_info)) continue;
      fleet::PageReader reader(pages.answers[i], longest_page);
      fleet::Question question;
      question.path = fleet::page_paths[i];
      const bool is_metrics = i == static_cast<std::size_t>(Page::metrics);
      if (is_metrics && !pool_.engine.metrics_path.empty()) question.path = pool_.engine.metrics_path;
      const auto done = exchange(std::move(question), std::min<Duration>(page_limit, stream_limit_), reader);
      if (done.end == fleet::QuestionEnd::answered) {
        report_.reachable = true;
      } else if (done.end == fleet::QuestionEnd::timed_out || !report_.reachable) {
        if (!report_.reachable) report_.failure = done.why;
        break;
      }
    }
    if (report_.reachable) report_.facts = fleet::facts_of(pages);
    return report_.reachable;
  }

  /// Returns the first model that it serves and the settings name; else the first of either.
  std::string model_to_ask() const {
    const auto& served = report_.facts.models;
    for (const auto& model : pool_.models)
      if (std::find(served.begin(), served.end(), model) != served.end()) return model;
    if (!served.empty()) return served.front();
    return pool_.models.empty() ? std::string() : pool_.models.front();
  }

  /// Finds the route on which it streams, and measures there. A refusal that may concern the route or the question
  /// leads to the next one; any other is its answer.
  bool find_route(const std::string& model) {
    std::string refused;  // The first refusal that says more than that there is no such route.
    for (const auto& route : routes) {
      for (const auto usage : usage_questions(route.api)) {
        StreamReader reader(route.api, replica_.api_key);
        const auto done = post(route, model, usage, reader);
        const auto status = reader.status();
        if (status == 404 || status == 405 || status == 501) break;
        if (status != 400 && status != 422) return measure(route, usage, reader, done);
        if (refused.empty()) refused = std::string(route.path) + ": " + reader.refusal();
      }
    }
    report_.failure = refused.empty() ? "it has none of the routes that stream tokens" : "it refuses " + refused;
    return false;
  }

  bool measure(const Route& route, UsageQuestion usage, StreamReader& reader, const fleet::QuestionResult& done) {
    report_.failure = reader.failure(done);
    if (!report_.failure.empty()) {
      const bool wants_key = reader.status() == 401 || reader.status() == 403;
      if (wants_key && replica_.api_key.empty()) report_.failure += ": name its key in api_key or api_key_file";
      return false;
    }
    route_ = route;
    usage_ = usage;
    report_.usage_refused = is_openai(route.api) && usage == UsageQuestion::none;
    report_.first = reader.stream();
    return true;
  }

  void ask_again(const std::string& model) {
    StreamReader again(route_.api, replica_.api_key);
    const auto done = post(route_, model, usage_, again);
    report_.failure = again.failure(done);
    if (!report_.failure.empty()) return;
    report_.again = again.stream();

    const auto engine = report_.facts.engine;
    const bool knows_continuous =
        engine == Engine::vllm || engine == Engine::aphrodite || engine == Engine::sglang || engine == Engine::weir_sim;
    if (!knows_continuous || !is_openai(route_.api) || report_.usage_refused) return;
    StreamReader every_chunk(route_.api, replica_.api_key);
    const auto asked = post(route_, model, UsageQuestion::on_every_chunk, every_chunk);
    report_.continuous_usage =
        every_chunk.failure(asked).empty() && every_chunk.stream().tokens_per_event == metrics::TokensPerEvent::wire;
  }

  fleet::QuestionResult post(const Route& route, const std::string& model, UsageQuestion usage, StreamReader& reader) {
    fleet::Question question;
    question.method = "POST";
    question.path = route.path;
    question.body = probe_body(route.api, model, usage);
    return exchange(std::move(question), stream_limit_, reader);
  }

  const config::Settings& settings_;
  const config::Pool& pool_;
  const config::Replica& replica_;
  Duration stream_limit_, connect_limit_{};
  Addresses addresses_;
  Route route_ = routes.front();
  UsageQuestion usage_ = UsageQuestion::none;
  ProbeReport report_;
};

}  // namespace

std::string probe_body(Api api, std::string_view model, UsageQuestion usage) {
  metrics::wire::JsonWriter body;
  body.open('{');
  if (is_openai(api) && !model.empty()) body.key("model").text(model);
  if (api == Api::openai_chat) {
    body.key("messages").open('[').open('{').key("role").text("user").key("content").text(prompt);
    body.close('}').close(']');
  } else {
    body.key(api == Api::tgi_generate ? "inputs" : "prompt").text(prompt);
  }
  if (api == Api::tgi_generate)
    body.key("parameters").raw(R"({"max_new_tokens":16,"details":true})");
  else
    body.key(is_openai(api) ? "max_tokens" : "n_predict").count(16).key("stream").boolean(true);
  if (usage == UsageQuestion::at_end) body.key("stream_options").raw(R"({"include_usage":true})");
  if (usage == UsageQuestion::on_every_chunk)
    body.key("stream_options").raw(R"({"include_usage":true,"continuous_usage_stats":true})");
  body.close('}');
  return std::move(body).written();
}

ProbeReport probe_replica(const config::Settings& settings, const config::Pool& pool, const config::Replica& replica,
                          Duration stream_limit) {
  auto report = Probe(settings, pool, replica, stream_limit).run();
  hide(replica.api_key, report.failure);
  return report;
}

namespace {

using Clock = std::chrono::steady_clock;
using fleet::QuestionEnd, fleet::QuestionResult;

std::string seconds_of(Clock::duration time) {
  return fmt::format("{:g} s", std::chrono::duration<double>(time).count());
}

/// The arguments outlive the coroutine.
net::Awaitable<QuestionResult> ask(fleet::ReplicaStream& stream, std::span<net::Address> others,
                                   const std::string& request, const ProbeLimits& limits, fleet::AnswerReader& reader) {
  if (const int error = co_await stream.connect(others); error != 0 && stream.timed_out())
    co_return QuestionResult{QuestionEnd::timed_out, "cannot connect within " + seconds_of(limits.connect)};
  else if (error != 0)
    co_return QuestionResult{QuestionEnd::failed, "cannot connect: " + net::connect_error_text(error)};
  stream.set_limit(limits.answer);
  const QuestionResult too_late{QuestionEnd::timed_out, "no answer within " + seconds_of(limits.answer)};
  if (!co_await stream.write(request))
    co_return stream.timed_out() ? too_late
                                 : QuestionResult{QuestionEnd::failed, "cannot send: " + stream.error_text()};

  auto end = co_await fleet::read_answer(stream, reader);
  if (end) co_return *std::move(end);
  if (stream.timed_out()) co_return too_late;
  if (const int refused = stream.refusal())
    co_return QuestionResult{QuestionEnd::failed, "cannot connect: " + net::connect_error_text(refused)};
  co_return QuestionResult{QuestionEnd::failed, "the connection breaks: " + stream.error_text()};
}

}  // namespace

std::variant<Addresses, std::string> addresses_of(const config::ReplicaUrl& url,
                                                  const std::optional<config::ListenAddress>& nameserver,
                                                  Clock::duration limit) {
  if (!url.unix_path.empty()) return Addresses{net::Address::at_path(url.unix_path), {}};
  net::NameLookup lookup(url.host, nameserver);
  const auto found = lookup.result(limit);
  if (!found) return "cannot look up " + url.host + " within " + seconds_of(limit);
  if (const auto* why = std::get_if<std::string>(&*found)) return "cannot look up " + url.host + ": " + *why;
  const auto addresses = fleet::addresses_to_use({}, std::get<std::vector<boost::asio::ip::address>>(*found));
  Addresses to{net::Address(addresses.front(), url.port), {}};
  for (std::size_t i = 1; i < addresses.size(); ++i) to.others.emplace_back(addresses[i], url.port);
  return to;
}

fleet::QuestionResult exchange_with(Addresses& to, const config::ReplicaUrl& url, const fleet::Question& question,
                                    const ProbeLimits& limits, config::ReadClock clock, fleet::AnswerReader& reader) {
  boost::asio::io_context context{1};
  const auto request = fleet::bytes_of(url, question);
  fleet::ReplicaStream stream(context.get_executor(), to.first, limits.connect, clock);
  auto result = fleet::wait_for(context, ask(stream, to.others, request, limits, reader));
  to.first.address = stream.address();
  return result;
}

}  // namespace weir::proxy::probe
