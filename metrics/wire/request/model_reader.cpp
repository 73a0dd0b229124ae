#include "metrics/wire/request/model_reader.hpp"

#include "metrics/wire/json/parser.hpp"
#include "metrics/wire/json/sax.hpp"
#include "metrics/wire/request/model_name.hpp"

namespace weir::metrics::wire {
namespace {

class ModelSax : public Sax {
 public:
  void object_begin() {
    if (depth_++ == 0) is_object_ = true;
  }
  void object_end(std::size_t) { --depth_; }
  void array_begin() { ++depth_; }
  void array_end(std::size_t) { --depth_; }
  void key(std::string_view name) {
    if (depth_ != 1) return;
    named_ += is_model(name) ? 1 : 0;
    in_model_ = name == "model";
    if (!in_model_) return;
    model_.clear();
    is_model_whole_ = false;
  }
  void string(std::string_view piece, bool last) {
    if (!in_model_ || depth_ != 1) return;
    model_.append(piece.substr(0, longest_model - model_.size()));
    is_model_whole_ = last;
  }

  const std::string& model() const { return model_; }
  bool is_model_whole() const { return is_model_whole_; }
  bool is_object() const { return is_object_; }
  bool is_twice() const { return named_ > 1; }

 private:
  std::size_t depth_ = 0;
  bool is_object_ = false;  ///< The outermost value is one.
  std::size_t named_ = 0;   ///< Counts the members that some reader could take for it.
  bool in_model_ = false;   ///< The value of the outermost object's `model` comes.
  bool is_model_whole_ = false;
  std::string model_;
};

}  // namespace

struct ModelReader::State {
  JsonParser<ModelSax> json;
};

ModelReader::ModelReader() = default;
ModelReader::~ModelReader() = default;

void ModelReader::feed(std::span<const char> piece) {
  if (!state_) state_ = std::make_unique<State>();
  state_->json.feed({piece.data(), piece.size()});
}

std::string ModelReader::model() const { return whole() ? state_->json.reader().model() : std::string(); }

std::string ModelReader::model_so_far() const {
  if (!state_ || !state_->json.reader().is_object() || !state_->json.reader().is_model_whole()) return {};
  return state_->json.reader().model();
}

bool ModelReader::is_twice() const { return whole() && state_->json.reader().is_twice(); }

bool ModelReader::whole() const { return state_ && state_->json.whole() && state_->json.reader().is_object(); }

RequestFacts facts_of_unread(std::string_view method, const ModelReader& read) {
  RequestFacts facts;
  facts.gives_work = method == "POST";
  facts.model = read.model();
  facts.model_twice = read.is_twice();
  facts.whole_json = read.whole();
  return facts;
}

}  // namespace weir::metrics::wire
