// Answers GET /v1/models and GET /v1/models/{id} from the replicas' own lists, and passes the lists on to the pools,
// which choose replicas by them. The replicas are asked every few seconds on the control thread, each with its own key
// if it has one. So a model that a replica loads or unloads is known within 5 s, or 7 s where some replica is slow. An
// empty list says nothing.
//
// Some replicas want a key and have none in the settings. Such a replica is asked on behalf of each client that brings
// a credential, on the loop of that client: at most 16 such replicas a request, 64 requests at a time, 2 s. Its answer
// is for that client alone and is kept nowhere. Where clients have keys for weir, no replica is asked like that.
#pragma once

#include <atomic>
#include <boost/asio/io_context.hpp>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "proxy/fleet/fleet.hpp"
#include "proxy/fleet/model_asking.hpp"
#include "proxy/fleet/published.hpp"
#include "proxy/fleet/served_models.hpp"
#include "proxy/http/head.hpp"
#include "proxy/http/own_answer.hpp"
#include "proxy/http/routes.hpp"
#include "proxy/net/awaitable.hpp"

namespace weir::proxy::fleet {

/// The key is ReplicaState::id.
using ToldModels = std::map<std::uint64_t, std::shared_ptr<const ModelEntries>>;

/// The models as they are known at one time. The object never changes; another one takes its place.
struct KnownModels {
  std::shared_ptr<const Snapshot> snapshot;
  ToldModels told;
  std::vector<std::shared_ptr<const Replica>> keyed;  ///< Those that want a client's credential, in the file's order.
  ServedModels served;
  std::string text;  ///< The answer to GET /v1/models.
};

class ModelDirectory {
 public:
  /// Publishes the models that the settings name.
  explicit ModelDirectory(const Fleet& fleet);
  ~ModelDirectory();

  /// Asks the replicas on the control thread until the context stops, and publishes what they answer.
  void start(boost::asio::io_context& context);

  /// Answers a request of Route::models or Route::model, on the client's loop. `head`, `halt` and `key` outlive the
  /// wait. When it is halted, the replicas' connections are closed at once, and the answer has what is known. `key` is
  /// the client's where clients need one, else null: it is weir's business and no replica's, so none is asked on behalf
  /// of the client, and the answer has the models that the key may use.
  net::Awaitable<http::OwnAnswer> answer(const http::RequestHead& head, http::Route route, Halt& halt,
                                         const keys::ClientKey* key);

 private:
  class Answers;

  const Fleet& fleet_;
  std::unique_ptr<Answers> answers_;
  Published<std::shared_ptr<const KnownModels>> known_;
  std::atomic<unsigned> asking_{0};  ///< Counts the clients for whom replicas are being asked.
};

}  // namespace weir::proxy::fleet
