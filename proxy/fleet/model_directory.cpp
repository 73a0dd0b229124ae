#include "proxy/fleet/model_directory.hpp"

#include <algorithm>
#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/error.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/this_coro.hpp>
#include <chrono>
#include <exception>
#include <map>

#include "proxy/events/events.hpp"
#include "proxy/fleet/replica_stream.hpp"
#include "proxy/http/writing.hpp"
#include "proxy/net/channel.hpp"

namespace weir::proxy::fleet {
namespace {

namespace asio = boost::asio;

constexpr std::chrono::seconds client_waits{2};
/// A longer list is not read on a loop, because tokens wait meanwhile.
constexpr std::size_t longest_list_on_loop = 256 * 1024;
constexpr std::size_t most_keyed = 16;
constexpr unsigned most_clients = 64;

/// The lists that replicas told for one client. The key is SharedReplica::id.
using ToldModels = std::map<std::uint64_t, std::shared_ptr<const ModelEntries>>;

bool wants_key(unsigned status) { return status == 401 || status == 403; }

/// Where a replica has told its models for the client, those count.
ServedModels served_by(const Snapshot& snapshot, const ToldModels& for_client) {
  ServedModels served;
  for (const auto& pool : snapshot.pools) {
    std::vector<std::shared_ptr<const ModelEntries>> entries;
    for (const auto& replica : pool->replicas) {
      const auto found = for_client.find(replica->state->id);
      auto told = found != for_client.end() ? found->second : replica->state->models.get();
      if (told) entries.push_back(std::move(told));
    }
    served.add_pool(pool->settings.models, entries);
  }
  return served;
}

/// Returns the credential fields of a client, each with its CRLF.
std::string credential_fields(const http::RequestHead& head) {
  std::string fields;
  for (const auto& field : head.fields)
    if (!field.value.empty() &&
        (field.known == http::FieldName::authorization || field.known == http::FieldName::x_api_key))
      http::add_field(fields, field.name, field.value);
  return fields;
}

/// `refused` says that a replica wants a key, and got none that it takes.
http::OwnAnswer answer_from(const ServedModels& served, const std::string* text, const http::RequestHead& head,
                            http::Route route, bool refused) {
  if (served.empty() && refused)
    return http::error_answer(401, "invalid_request_error", "invalid_api_key",
                              "the replicas tell their models only to who has their key: send it as "
                              "'Authorization: Bearer KEY' or 'x-api-key: KEY'");
  http::OwnAnswer answer;
  if (route == http::Route::models) {
    answer.body = text != nullptr ? *text : served.text();
    return answer;
  }
  const auto id = http::model_id_in(head.path);
  const auto* entry = id ? served.find(*id) : nullptr;
  if (entry == nullptr) {
    const auto printable = [](char c) { return c >= 0x20 && c < 0x7f; };
    const bool fit = id && std::all_of(id->begin(), id->end(), printable);
    return http::error_answer(404, "invalid_request_error", "model_not_found",
                              "the model '" + (fit ? *id : std::string(head.path)) +
                                  "' is not served here; GET /v1/models lists those that are");
  }
  answer.body = *entry + "\n";
  return answer;
}

/// A place for one of the clients on whose behalf replicas are being asked.
class ClientSlot {
 public:
  explicit ClientSlot(std::atomic<unsigned>& taken) : taken_(taken), got_(taken.fetch_add(1) < most_clients) {}
  ~ClientSlot() { taken_.fetch_sub(1); }
  ClientSlot(const ClientSlot&) = delete;
  ClientSlot& operator=(const ClientSlot&) = delete;
  bool got() const { return got_; }

 private:
  std::atomic<unsigned>& taken_;
  bool got_;
};

/// The questions on behalf of one client. The last of them may outlive the wait for them.
struct ClientQuestions {
  explicit ClientQuestions(const asio::io_context::executor_type& executor) : timer(executor) {}

  /// Ends all that is under way.
  void stop() {
    for (auto& signal : signals) signal->emit(asio::cancellation_type::terminal);
    timer.cancel();
  }

  net::Timer timer;
  std::size_t open = 0;
  ToldModels told;
  bool refused = false;
  std::exception_ptr failure;  ///< What a question ended with.
  std::vector<std::unique_ptr<asio::cancellation_signal>> signals;
};

net::Awaitable<void> ask_one(std::shared_ptr<ClientQuestions> all, std::shared_ptr<const Replica> replica,
                             Question question) {
  const auto page = co_await ask_for_page(replica, std::move(question), client_waits, longest_list_on_loop);
  all->refused |= wants_key(page.status);
  if (page.status == 200) all->told[replica->state->id] = std::make_shared<const ModelEntries>(entries_of(page.body));
}

/// A question that stop() ended is no failure.
bool is_failure(const std::exception_ptr& ended) {
  if (!ended) return false;
  try {
    std::rethrow_exception(ended);
  } catch (const boost::system::system_error& error) {
    return error.code() != asio::error::operation_aborted;
  } catch (...) {
    return true;
  }
}

/// Asks these replicas at once, and returns when all have answered, 2 s are up, or it is halted; then throws what a
/// question ended with.
net::Awaitable<std::shared_ptr<ClientQuestions>> ask_for_client(
    std::span<const std::shared_ptr<const Replica>> replicas, std::string credential, Halt& halt) {
  const asio::io_context::executor_type executor = co_await asio::this_coro::executor;
  const auto all = std::make_shared<ClientQuestions>(executor);
  if (halt.called()) co_return all;
  all->timer.expires_after(client_waits);
  for (const auto& replica : replicas) {
    Question question;
    question.path = "/v1/models";
    question.credential = credential;
    auto answered = [all](const std::exception_ptr& ended) {
      if (is_failure(ended)) all->failure = ended;
      if (--all->open == 0) all->timer.cancel();
    };
    auto& signal = *all->signals.emplace_back(std::make_unique<asio::cancellation_signal>());
    auto stoppable = asio::bind_cancellation_slot(signal.slot(), std::move(answered));
    asio::co_spawn(executor, ask_one(all, replica, std::move(question)), std::move(stoppable));
    ++all->open;
  }
  halt.stops([all] { all->stop(); });
  boost::system::error_code error;
  if (all->open > 0) co_await all->timer.async_wait(asio::redirect_error(net::use_awaitable, error));
  halt.stops(nullptr);
  if (all->failure) std::rethrow_exception(all->failure);
  co_return all;
}

}  // namespace

void ModelDirectory::follow(std::shared_ptr<const Snapshot> snapshot) {
  snapshot_ = std::move(snapshot);
  publish();
}

void ModelDirectory::learn(const Replica& replica, const PageAnswer& answer) {
  auto& state = *replica.state;
  const auto known = state.models.get();
  if (wants_key(answer.status)) {
    state.models.set(nullptr);
    if (std::exchange(state.refuses_models, true) && !known) return;
    const auto& name = replica.settings.name;
    if (replica.settings.api_key.empty())
      events::info(events::What::engine, name, "replica '{}' tells its models only to who has its key: {}", name,
                   snapshot_->keys ? "set api_key" : "clients' own are used, or set api_key");
    else
      events::warn(events::What::engine, name, "replica '{}' refuses the key that its api_key or api_key_file gives it",
                   name);
    return publish();
  }
  if (answer.status != 200) return;
  // A replica that does not answer now keeps its earlier list: it serves the same model when it is back.
  const bool welcome = std::exchange(state.refuses_models, false);
  auto entries = entries_of(answer.body);
  const bool news = !known || (!entries.empty() && *known != entries);
  if (news) state.models.set(std::make_shared<const ModelEntries>(std::move(entries)));
  if (news || welcome) publish();
}

void ModelDirectory::publish() {
  auto known = std::make_shared<KnownModels>();
  known->snapshot = snapshot_;
  for (const auto& pool : snapshot_->pools)
    for (const auto& replica : pool->replicas) {
      if (replica->settings.api_key.empty() && replica->state->refuses_models) known->keyed.push_back(replica);
      const auto told = replica->state->models.get();
      pool->balancer->health().models_told(replica->key, told ? ids_of(*told) : nullptr);
    }
  known->served = served_by(*snapshot_, {});
  known->text = known->served.text();
  known_.set(std::move(known));
}

net::Awaitable<http::OwnAnswer> ModelDirectory::answer(const http::RequestHead& head, http::Route route, Halt& halt,
                                                       const keys::ClientKey* key) {
  const auto known = known_.get();
  if (key != nullptr) {
    if (key->settings.models.empty()) co_return answer_from(known->served, &known->text, head, route, false);
    const auto served = known->served.only(key->settings.models);
    co_return answer_from(served, nullptr, head, route, false);
  }
  const auto credential = credential_fields(head);
  if (credential.empty() || known->keyed.empty())
    co_return answer_from(known->served, &known->text, head, route, !known->keyed.empty());

  const ClientSlot place(asking_);
  if (!place.got()) {
    auto busy = http::error_answer(429, "overloaded_error", "overloaded",
                                   "too many clients ask for the models of replicas that want a key: try again in 1 s");
    busy.retry_after = std::chrono::seconds(1);
    co_return busy;
  }
  const std::span keyed(known->keyed);
  const auto asked = co_await ask_for_client(keyed.first(std::min(keyed.size(), most_keyed)), credential, halt);
  const auto served = served_by(*known->snapshot, asked->told);
  co_return answer_from(served, nullptr, head, route, asked->refused);
}

}  // namespace weir::proxy::fleet
