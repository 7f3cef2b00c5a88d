// Prints the status that kstatus, with which Flux and others tell health, finds for each object on standard input.
package main

import (
	"encoding/json"
	"fmt"
	"io"
	"log"
	"os"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/cli-utils/pkg/kstatus/status"
)

func main() {
	objects := json.NewDecoder(os.Stdin)
	for {
		var object unstructured.Unstructured
		if err := objects.Decode(&object); err == io.EOF {
			return
		} else if err != nil {
			log.Fatal(err)
		}
		found, err := status.Compute(&object)
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(found.Status)
	}
}
