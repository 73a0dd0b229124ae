#include "proxy/exchange/exchange.hpp"

#include <simdjson.h>

#include <algorithm>
#include <charconv>
#include <iterator>
#include <utility>

#include "balancer/story/attempt.hpp"
#include "metrics/moment.hpp"
#include "metrics/wire/dialects/dialect.hpp"
#include "proxy/exchange/client_request.hpp"
#include "proxy/exchange/failure_answers.hpp"
#include "proxy/exchange/mirror.hpp"
#include "proxy/http/credential.hpp"
#include "proxy/http/writing.hpp"

namespace weir::proxy::exchange {
namespace {

using metrics::Outcome;
using story::Told;

/// Balancers and clients give up a connection on which nothing has come for a minute, if they do at all.
constexpr config::Seconds comments_after{15};
/// So much of an error's body is told inside a stream.
constexpr std::size_t most_told = 2048;

/// Returns the error that a replica's answer with this status and body tells. Engines put it into a member `error` or
/// into the root. Any other answer is no event stream, which is the replica's fault.
http::OwnError error_in(unsigned status, std::string_view body) {
  http::OwnError error{story::has_no_room(status)           ? "overloaded_error"
                       : story::refuses_the_request(status) ? "invalid_request_error"
                                                            : "upstream_error",
                       "replica_failed", "a replica answered " + std::to_string(status)};
  if (body.empty()) return error;
  if (status < 400) {
    error.message.append(": ").append(body.substr(0, most_told));
    return error;
  }
  simdjson::dom::parser parser;
  simdjson::dom::object root, found;
  if (parser.parse(body.data(), body.size()).get(root) != simdjson::SUCCESS) {
    error.message.append(": ").append(body.substr(0, most_told));
    return error;
  }
  if (root["error"].get(found) != simdjson::SUCCESS) found = root;
  const auto take = [&found](std::string_view key, std::string& into) {
    std::string_view text;
    std::int64_t number = 0;
    if (found[key].get(text) == simdjson::SUCCESS)
      into = text.substr(0, most_told);
    else if (found[key].get(number) == simdjson::SUCCESS)
      into = std::to_string(number);
  };
  error.message += ": " + std::string(body.substr(0, most_told));
  take("error", error.message);  // TGI's and Ollama's sentence.
  take("message", error.message);
  take("error_type", error.type);  // TGI's.
  take("type", error.type);
  take("code", error.code);
  return error;
}

/// Returns the end of a chunked event stream: an event with this error, and the last chunk.
std::string closing(metrics::Api api, unsigned status, const http::OwnError& error) {
  const auto event = http::error_event(api, status, error);
  char size[20];
  const auto* const end = std::to_chars(std::begin(size), std::end(size), event.size(), 16).ptr;
  return std::string(size, static_cast<std::size_t>(end - size)) + "\r\n" + event + "\r\n0\r\n\r\n";
}

/// A request's body that shadows share, with what pays for it.
struct SharedBody {
  std::string bytes;
  net::SharedBudgetHold hold;
};

std::shared_ptr<const std::string> share(ClientMessage& message) {
  const auto shared =
      std::make_shared<const SharedBody>(SharedBody{std::move(message.body), std::move(message.budget_hold)});
  return {shared, &shared->bytes};
}

story::Story::Shared shared_by(Loop& loop, const fleet::PoolRuntime& pool) {
  return {*pool.balancer,
          loop.shared.fleet.retries(),
          *pool.poison,
          pool.settings.queue.requests > 0,
          metrics::ticks(pool.settings.queue.time),
          &loop.shared.fleet.homes(),
          &loop.shared.cutting};
}

story::Story::Request story_of(Loop& loop, ClientMessage& message, const ClientIdentity& client, const RequestIds& ids,
                               const fleet::PoolRuntime& pool) {
  story::Story::Request about{message.facts, std::move(message.prefix)};
  set_ties(about, loop.shared.fleet.homes(), message, client, pool, loop.shared.keys.conversation.numbers);
  if (pool.rollout && about.lot == 0 && message.facts->conversation == 0)
    about.lot = metrics::sip_hash(loop.shared.keys.fair_by, ids.weir);
  const auto& fair_by = pool.settings.queue.fair_by;
  about.fair_key = fair_key(loop.shared.keys.fair_by, fair_by, message.head, client.address, client.key_name());
  about.caller.client = sender_of(loop.shared.keys.fair_by, message.head, client.address, client.key_name());
  about.caller.voice = about.fair_key;
  // A header that tells users apart for the queue tells them apart here, too.
  if (fair_by.what == config::FairBy::What::header) about.caller.client = about.fair_key;
  about.caller.gives_work = message.facts->gives_work;
  const metrics::Api api = message.facts->api;
  about.caller.infers = api != metrics::Api::other;
  const auto kept = http::kept_path(message.head.method, message.head.path);
  // Paths with ids are one kind of route: /v1/responses.
  const auto path = kept ? message.head.path.substr(0, message.head.path.find('/', 4)) : message.head.path;
  about.caller.topic =
      balancer::topic_of(message.facts->model, api == metrics::Api::other ? path : metrics::name_of(api));
  if (client.key && fair_by.what == config::FairBy::What::key) about.share = client.key->settings.share;
  about.bytes = message.body.size();
  const auto& method = message.head.method;
  const bool only_looks = kept && (method == "GET" || method == "HEAD");
  about.repeatable = about.leaves_hung = message.route == http::Route::inference || only_looks;
  // An idle connection may be dead, and then the request is sent a second time. A body of what is no inference is sent
  // once: with one, no method says that a second time does no harm.
  const bool only_asks = message.body.empty() && (method == "GET" || method == "HEAD" || method == "OPTIONS");
  about.may_go_twice = about.repeatable || only_asks;
  return about;
}

}  // namespace

Exchange::Exchange(Loop& loop, net::Channel& client, std::string& unread, ClientRequest& request,
                   const fleet::PoolRuntime& pool)
    : loop_(loop),
      client_(client, unread, request.snapshot->settings.server.half_close),
      request_(request),
      body_size_(request.message.body.size()),
      pool_(pool),
      story_(shared_by(loop, pool), story_of(loop, request.message, request.client, request.ids, pool)),
      early_(make_early_head()),
      runner_(loop, client_, story_, pool, request.snapshot->settings.limits, *this) {
  loop_.streams.fetch_add(1, std::memory_order_relaxed);
  if (!pool_.shadows.empty() && loop.shared.shadows != nullptr && can_be_mirrored(request.message))
    shared_body_ = share(request_.message);
}

std::unique_ptr<EarlyHead> Exchange::make_early_head() const {
  const ClientMessage& message = request_.message;
  const RequestIds& ids = request_.ids;
  const auto& facts = *message.facts;
  const bool wanted = pool_.settings.keep_alive && facts.stream && message.route == http::Route::inference;
  const bool may = message.head.http_1_1 && message.head.method == "POST" && !message.bypassed;
  if (!wanted || !may || facts.api == metrics::Api::other ||
      metrics::wire::dialect_of(facts.api).framing != metrics::wire::Framing::events)
    return nullptr;
  http::ResponseHead head;
  head.status = 200;
  head.fields.emplace_back("Content-Type", "text/event-stream");
  http::ClientAnswer answer;
  answer.framing = http::ClientFraming::chunked;
  answer.keep_alive = message.head.keep_alive && !loop_.shared.draining.load(std::memory_order_relaxed);
  answer.event_stream = true;
  answer.request_id = ids.shown();
  answer.weir_id = ids.weir;
  answer.cors = request_.client.cors;
  return std::make_unique<EarlyHead>(http::client_head(head, answer), answer.keep_alive,
                                     metrics::ticks(*pool_.settings.keep_alive), message.received,
                                     request_.progress.answered);
}

Exchange::~Exchange() { loop_.streams.fetch_sub(1, std::memory_order_relaxed); }

/// Gives copies to the shadows that want what this replica gets. Each gets one at most.
void Exchange::begins(const fleet::Replica& replica) {
  if (story_.attempts().size() > 1) identify();
  if (!shared_body_) return;
  std::vector<std::shared_ptr<const fleet::ShadowRuntime>> shadows;
  for (const auto& one : pool_.shadows) {
    if (std::ranges::find(mirrored_to_, one->state.get()) != mirrored_to_.end()) continue;
    if (!wants(*one, replica, request_, loop_.shared.keys.fair_by)) continue;
    mirrored_to_.push_back(one->state.get());
    shadows.push_back(one);
  }
  if (shadows.empty()) return;
  auto job = std::make_shared<MirrorJob>();
  const auto& message = request_.message;
  job->snapshot = request_.snapshot;
  job->primary_pool = pool_.balancer;
  job->shadows = std::move(shadows);
  job->head_bytes = message.head_bytes;
  job->body = shared_body_;
  job->facts = message.facts;
  job->id = request_.ids.weir;
  job->caller = story_.request().caller;
  job->received = message.received;
  job->time = message.time;
  if (client_left_) job->client_left = client_left_;
  client_left_ = job->client_left;
  loop_.shared.shadows->post(loop_, std::move(job));
}

/// Makes the head, and the edits of the body, which is not copied.
Outgoing Exchange::outgoing(const fleet::Replica& replica, metrics::wire::Ask wanted) {
  const auto& facts = *request_.message.facts;
  const auto edits = metrics::wire::edits_that_ask(wanted, facts, body());
  Outgoing outgoing;
  outgoing.asked = edits.asked;
  outgoing.body_size = edits.size_of(body_size_);
  http::UpstreamRequest upstream{replica.settings.url, outgoing.body_size, request_.ids.shown(),
                                 facts.api != metrics::Api::other, replica.settings.api_key};
  upstream.client_key_ends_here = request_.snapshot->keys != nullptr;
  upstream.way = {request_.client.through_proxy, request_.client.peer_text};
  upstream.via = http::name_in_via();
  upstream_head_ = http::upstream_head(request_.message.head, upstream);
  outgoing.spans.reserve(2 + 2 * edits.list().size());
  outgoing.spans.push_back(upstream_head_);
  edits.append(body(), outgoing.spans);
  return outgoing;
}

void Exchange::describe(AnswerHandler::Options& options, const fleet::Replica& replica) {
  const auto& message = request_.message;
  options.replica.to_head = message.head.method == "HEAD";
  options.replica.unread = message.bypassed;
  options.replica.received = message.received;
  if (client_left_) options.replica.fingerprint_key = &loop_.shared.keys.fingerprint;
  auto& client = options.client;
  client.http_1_1 = message.head.http_1_1;
  client.comments_after = metrics::ticks(pool_.settings.keep_alive.value_or(comments_after));
  client.keep_alive = message.head.keep_alive && !loop_.shared.draining.load(std::memory_order_relaxed);
  client.request_id = request_.ids.shown();
  client.weir_id = request_.ids.weir;
  client.replica = replica.settings.name;
  client.cors_fields = request_.client.cors;
}

void Exchange::answer_accepted() {
  request_.progress.answered = true;
  std::vector<http::HeaderField>().swap(request_.message.head.fields);  // Only another attempt would need them again.
}

void Exchange::request_sent() {
  std::string().swap(upstream_head_);
  if (shared_body_) return shared_body_.reset();
  request_.message.drop_body();
}

/// Tells the libraries of OpenAI and Anthropic not to send the request again, unless the replica says what to do.
static void tell_not_to_retry(std::string& answer) {
  constexpr std::string_view field = "x-should-retry: false\r\n", end = "\r\n";
  const std::string_view head = std::string_view(answer).substr(0, answer.find("\r\n\r\n"));
  for (std::size_t at = head.find(end); at != std::string_view::npos; at = head.find(end, at + end.size()))
    if (http::same_token(head.substr(at + end.size(), field.find(':') + 1), field.substr(0, field.find(':') + 1)))
      return;
  if (const auto at = head.find(end); at != std::string_view::npos) answer.insert(at + end.size(), field);
}

ExchangeEnd Exchange::conclude() {
  ExchangeEnd end;
  const auto ending = story_.ending();
  const auto& over = *ending.attempt;
  if (ending.told == Told::kept_error) {
    end.kept = over.kept;
    end.keep_alive = over.client_keep_alive;
    const bool failed = ending.failed_twice && over.status >= 500 && over.status != 503;
    if (story_.is_poison() || failed) tell_not_to_retry(*end.kept);
  } else if (ending.told == Told::relayed) {
    end.keep_alive = over.client_keep_alive;
    end.reset = over.client_reset;
  } else if ((end.own = own_answer())) {
    end.keep_alive = request_.message.head.keep_alive;
  }
  record(end);
  if (early_ && early_->begun() && (end.own || end.kept)) tell_inside(end);
  return end;
}

/// Has what would be the answer told inside the stream whose head the client has. An event stream that was kept goes on
/// behind that head.
void Exchange::tell_inside(ExchangeEnd& end) {
  const metrics::Api api = request_.message.facts->api;
  std::string rest;
  if (end.own) {
    rest = closing(api, end.own->status,
                   end.own->error.value_or(http::OwnError{"upstream_error", "no_replica", "no replica answered"}));
  } else if (const std::string_view kept = *end.kept; kept.starts_with("HTTP/")) {
    const auto head = kept.substr(0, kept.find("\r\n\r\n") + 4), body = kept.substr(head.size());
    const auto parsed = http::parse_response_head(head, false);
    const bool chunked = parsed && parsed->framing == http::Framing::chunked;
    const bool goes_on =
        chunked && parsed->status == 200 && (*parsed)[http::FieldName::content_type].starts_with("text/event-stream");
    const unsigned status = story_.ending().attempt->status;
    rest = goes_on ? std::string(body) : closing(api, status, error_in(status, chunked ? std::string_view() : body));
  } else {
    rest = kept;
  }
  end.own.reset();
  end.kept = std::make_shared<std::string>(std::move(rest));
  end.keep_alive = early_->keep_alive() && !loop_.shared.draining.load(std::memory_order_relaxed);
}

/// Returns weir's own answer; null if the client left before there was any.
std::unique_ptr<http::OwnAnswer> Exchange::own_answer() {
  const auto ending = story_.ending();
  const auto& over = *ending.attempt;
  const std::string name = ending.replica != nullptr ? AttemptRunner::replica_of(*ending.replica).settings.name : "";
  const auto answer = [](http::OwnAnswer own) { return std::make_unique<http::OwnAnswer>(std::move(own)); };
  switch (ending.told) {
    case Told::unconnected:
      return answer(unconnected_answer(name, over.connect_error));
    case Told::failed:
      return answer(failure_answer(name, over.verdict.outcome));
    case Told::poison:
      return answer(poison_answer(name));
    case Told::refused:
      return answer(refusal());
    case Told::stopping:
      return answer(http::stopping_answer());
    case Told::nothing:
    case Told::relayed:
    case Told::kept_error:
      break;
  }
  return nullptr;
}

http::OwnAnswer Exchange::refusal() {
  const auto now_known = loop_.shared.fleet.snapshot();  // The pool may have other replicas by now.
  const auto* const pool_now = now_known->pool_of(*pool_.balancer);
  const bool up = fleet::any_up(pool_now != nullptr ? *pool_now : pool_, std::chrono::steady_clock::now());
  return refusal_answer(story_.ending().refusal, pool_.settings, up, loop_.random_from(1, 1.5));
}

/// Counts and logs the request.
void Exchange::record(ExchangeEnd& end) {
  auto record = begin_record(request_, body_size_);
  record.pool = pool_.settings.name;
  auto* series = pool_.unassigned.get();
  if (const auto* const ref = story_.ending().replica) {
    const auto& replica = AttemptRunner::replica_of(*ref);
    record.replica = replica.settings.name;
    record.config = replica.settings.config;
    series = replica.series.get();
  }
  story_.complete(record, std::chrono::steady_clock::now());
  if (story_.attempts().size() > 1)
    for (const auto& one : story_.attempts())
      record.tried.make().push_back(
          {AttemptRunner::replica_of(one.replica).settings.name, one.started, one.ended, one.status, one.why});
  if (end.own) record.status = end.own->status;
  record.shadows = static_cast<std::uint32_t>(mirrored_to_.size());
  if (client_left_ && record.outcome == Outcome::client_abort) {
    client_left_->store(true, std::memory_order_relaxed);
    loop_.shared.shadows->client_left();
  }
  if (record.facts.api != metrics::Api::other && !record.facts.whole_json)
    series->shard(loop_.index).unparsed.add(metrics::series::Unparsed::broken_request);
  request_.progress.recorded = true;
  settle(loop_, *series, std::move(record));
}

ExchangeEnd end_without_pool(Loop& loop, ClientRequest& request) {
  ExchangeEnd end;
  const auto& facts = *request.message.facts;
  const auto known = request.snapshot->known_models();
  end.own = std::make_unique<http::OwnAnswer>(
      facts.model.empty()
          ? http::error_answer(400, "invalid_request_error", "model_missing",
                               "the request names no model that weir can read, and each pool here has its own: name it "
                               "in the member `model` of a JSON object, or in the field `model` of a form; known "
                               "models: " +
                                   known)
          : http::error_answer(404, "invalid_request_error", "model_not_found",
                               "the model '" + facts.model + "' is not served here; known models: " + known));
  end.keep_alive = request.message.head.keep_alive;
  if (facts.api != metrics::Api::other && !facts.whole_json) {
    auto& shard = loop.shared.exposition.unassigned().shard(loop.index);
    shard.unparsed.add(metrics::series::Unparsed::broken_request);
  }
  record_unassigned(loop, request, Outcome::bad_request, end.own->status);
  return end;
}

}  // namespace weir::proxy::exchange
